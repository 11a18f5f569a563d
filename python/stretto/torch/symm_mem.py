"""PyTorch's own fused operators, torch.ops.symm_mem, by Stretto: what calls them need not change.

    stretto.torch.enable_symm_mem()

They are called by PyTorch's asynchronous tensor parallelism and by vLLM's AsyncTP pass.
"""

import contextlib
import importlib
import inspect
import warnings
from typing import List, Set

import torch

from . import _kernels
from ._refusals import NotServed
from .groups import find
from .report import count_fallback, count_served

_libraries: List[torch.library.Library] = []
_restored: Set[str] = set()  # what torch.library noted of PyTorch's own kernels, and loses with a library of ours
_is_gathered_returned = True


def _is_turned(b):
    return b.dim() == 2 and not b.t().is_contiguous()


def _weights(bs, x, rows, columns, ranks):
    """[N, K] of operands B [K, N]. As linear.weight.t() is, it is the transpose of a row-major weight; as the gradient
    of x has it, it is the weight itself: turned, a copy at every call, where what travels takes longer.
    """
    if not bs:
        raise NotServed("there is no B")
    if any(b.dim() != 2 for b in bs):
        raise NotServed("B is no matrix")
    if any(map(_is_turned, bs)) and not _kernels.pays(x, rows, columns, ranks):
        raise NotServed("B is no transpose of a row-major weight, as weight.t() is, and to turn it would take longer "
                        "than what travels")
    return [b.t().contiguous() for b in bs]


def _rows(tensor, dim):
    dim = dim + tensor.dim() if dim < 0 else dim
    if not 0 <= dim < tensor.dim() - 1:
        raise NotServed(f"dimension {dim} of {list(tensor.shape)} is not one of its rows")
    return dim


def _by_stretto(op, group, bs, serve, fall_back):
    try:
        made = serve()
    except NotServed as reason:
        if not group.options.fallback:
            raise ValueError(f"symm_mem.{op} is not served for group {group.name!r}: {reason}") from None
        count_fallback(f"symm_mem.{op}", str(reason))
        return fall_back()
    count_served(f"symm_mem.{op}{', B turned' if any(map(_is_turned, bs)) else ''}")
    return made


def _all_gather_matmul(A, Bs, gather_dim, group_name, *, return_A=True):
    group = find(group_name)

    def serve():
        dim, turned = _rows(A, gather_dim), sum(b.shape[-1] for b in Bs if _is_turned(b))
        weights = _weights(Bs, A, A.shape[:-1].numel() * group.ranks, turned, group.ranks)
        is_kept = return_A and _is_gathered_returned
        # Results lie as PyTorch's do, which compiled code expects: the dimension that is gathered first.
        y, gathered = _kernels.all_gather_matmul(A.movedim(dim, 0), weights, [], group_name, keep_gathered=is_kept,
                                                 falls_back=False)
        # Results of an operator share no memory.
        parts = [y] if len(Bs) == 1 else [part.contiguous() for part in
                                          y.split([weight.shape[0] for weight in weights], dim=-1)]
        return gathered.movedim(0, dim) if is_kept else None, [part.movedim(0, dim) for part in parts]

    def fall_back():
        symmetric = torch.distributed._symmetric_memory
        own = (symmetric._fused_all_gather_matmul if A.device.type == "cuda" else
               symmetric._fused_all_gather_matmul_fallback)
        more = {} if return_A else {"return_A": False}  # older releases have no such argument
        return own(A, Bs, gather_dim, group_name, **more)

    return _by_stretto("fused_all_gather_matmul", group, Bs, serve, fall_back)


def _matmul_reduce_scatter(A, B, reduce_op, scatter_dim, group_name):
    group = find(group_name)

    def serve():
        dim = _rows(A, scatter_dim)
        weight, = _weights([B], A, A.shape[:-1].numel(), A.shape[-1], group.ranks)
        if reduce_op not in ("sum", "avg"):
            raise NotServed(f"reduce_op is {reduce_op!r}")
        y = _kernels.matmul_reduce_scatter(A, weight, None, group_name, dim, falls_back=False)
        return y.div_(group.ranks) if reduce_op == "avg" else y

    def fall_back():
        symmetric = torch.distributed._symmetric_memory
        own = (symmetric._fused_matmul_reduce_scatter if A.device.type == "cuda" else
               symmetric._fused_matmul_reduce_scatter_fallback)
        return own(A, B, reduce_op, scatter_dim, group_name)

    return _by_stretto("fused_matmul_reduce_scatter", group, [B], serve, fall_back)


FP8 = "A and B are scaled, as fp8 is, which Stretto does not multiply"


def _pytorchs(name):
    """PyTorch's own operator, counted: what is never served."""
    def call(*given, **named):
        def serve():
            raise NotServed(FP8)

        def fall_back():
            symmetric, is_on_gpu = torch.distributed._symmetric_memory, given[0].device.type == "cuda"
            return getattr(symmetric, f"_{name}{'' if is_on_gpu else '_fallback'}")(*given, **named)

        *_, group_name = [one for one in given if isinstance(one, str)]  # behind a reduce_op, where there is one
        return _by_stretto(name, find(group_name), [], serve, fall_back)
    return call


SERVED = {"fused_all_gather_matmul": _all_gather_matmul, "fused_matmul_reduce_scatter": _matmul_reduce_scatter}
SCALED = "fused_all_gather_scaled_matmul", "fused_scaled_matmul_reduce_scatter"  # of PyTorch from 2.5 on


def enable_symm_mem(*, return_gathered: bool = True) -> None:
    """Makes torch.ops.symm_mem.fused_all_gather_matmul and fused_matmul_reduce_scatter Stretto's.

    return_gathered  False: answer None for the gathered rows, whatever return_A says. For callers that do
                     not use them and do not say so: it spares a copy of all rows

    A weight that is no transpose of a row-major one, as in the gradient of x, is turned where that pays; such calls
    stand in report() as "NAME, B turned". What is not served, as the scaled operators of fp8, goes to PyTorch's implementation, and stands in report()
    with its reason. For the whole process, until disable_symm_mem(). Twice is as good as once. Raises RuntimeError
    where this PyTorch has no such operators.
    """
    global _is_gathered_returned
    _is_gathered_returned = return_gathered
    if _libraries:
        return
    try:
        importlib.import_module("torch.distributed._symmetric_memory")  # defines the operators
    except ImportError:
        raise RuntimeError(f"PyTorch {torch.__version__} has no torch.ops.symm_mem; 2.5 has") from None
    library = torch.library.Library("symm_mem", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*[Oo]verriding a previously registered kernel.*")
        scaled = {name: _pytorchs(name) for name in SCALED if hasattr(torch.ops.symm_mem, name)}
        for name, function in {**SERVED, **scaled}.items():
            for key in ("CPU", "CUDA"):
                _override(library, name, function, key)
    _libraries.append(library)


def _override(library, name, function, key):
    """The dispatcher takes a second kernel and goes back to the first when it ends; releases of torch.library
    refuse one over another of Python's, as PyTorch's own are, unless they are told or do not know of it.
    """
    noted = f"symm_mem/{name}/{key}"
    if noted in torch.library._impls:
        _restored.add(noted)
    if "allow_override" in inspect.signature(library.impl).parameters:
        library.impl(name, function, key, allow_override=True)
    else:
        torch.library._impls.discard(noted)
        library.impl(name, function, key)


def disable_symm_mem() -> None:
    """Gives the operators back to PyTorch."""
    while _libraries:
        _libraries.pop()._destroy()
    torch.library._impls.update(_restored)
    _restored.clear()


@contextlib.contextmanager
def symm_mem(**options):
    """enable_symm_mem() for the block."""
    enable_symm_mem(**options)
    try:
        yield
    finally:
        disable_symm_mem()
