"""Operators as functions: what a model calls. Groups are ProcessGroups, meshes of one dimension or names."""

from typing import List, Optional, Sequence, Tuple, Union, overload

import torch
from torch.autograd import forward_ad

from . import _again, _checks, _shapes, _trained, _wanted, ops  # noqa: F401  (defines torch.ops.stretto)
from ._activations import Activated
from .groups import GroupLike, ranks_of, seat
from .report import IN_PARTS, count_left

Weights = Union[torch.Tensor, Sequence[torch.Tensor]]


def _listed(one_or_many):
    if one_or_many is None:
        return []
    is_one = isinstance(one_or_many, torch.Tensor) or not hasattr(one_or_many, "__iter__")
    return [one_or_many] if is_one else list(one_or_many)


def _refuse_gradients(op, *tensors):
    """The last one is `out`."""
    _checks.tensors(op, out=tensors[-1])
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in tensors):
        raise ValueError(f"{op}: out has no gradient: call it under torch.no_grad(), or without out")


def _refuse_tangents(op, tensors):
    """PyTorch's dispatcher leaves the tangents of an operator without a forward mode out, and says nothing. Of
    torch.func's gradients it says something of functions that are none of the caller's.
    """
    if _again.is_differentiated():
        raise ValueError(f"{op}: inside torch.func.grad(), vjp(), jacrev() and the like it has no gradients: take them "
                         "by backward() or torch.autograd.grad()")
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(one).tangent is not None for one in tensors):
        raise ValueError(f"{op}: a tensor has a tangent, and there are no gradients in forward mode: take them by "
                         "backward(), outside of dual_level() and torch.func.jvp()")


def _product(op, x, weight, bias, group, out, *more):
    """An operator of x, weight and bias; `more` arguments of the long way than a usual call has."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    outs = None if out is None else (out,)
    if not any(more):
        made = _again.again(op, group, None, tensors, outs)
        if made is not None:
            return made[0]
    _checks.tensors(op, x=x, weight=weight, bias=[] if bias is None else bias)
    _checks.numbers(op, int, **dict(zip(("dim",), more)))
    _refuse_tangents(op, tensors)
    kernel, name = getattr(torch.ops.stretto, op), seat(group)
    if out is None:
        if op == "matmul_reduce_scatter":  # of an all-reduce nothing is exchanged
            _wanted.say(op, x=[x], weight_or_bias=[] if x.requires_grad else [weight, bias])
        made = kernel(x, weight, bias, name, *more)
    else:
        _refuse_gradients(op, *tensors, out)
        kernel.out(x, weight, bias, name, *more, out=out)
        made = out
    return made


@overload
def all_gather_matmul(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = ...,
                      group: GroupLike = ..., *, dim: int = ..., rows: Optional[int] = ...,
                      keep_gathered: bool = ..., out: Optional[torch.Tensor] = ...) -> torch.Tensor: ...


@overload
def all_gather_matmul(x: torch.Tensor, weight: Sequence[torch.Tensor],
                      bias: Optional[Sequence[torch.Tensor]] = ..., group: GroupLike = ..., *,
                      dim: int = ..., rows: Optional[int] = ..., keep_gathered: bool = ...,
                      out: Optional[torch.Tensor] = ...) -> List[torch.Tensor]: ...


def all_gather_matmul(x: torch.Tensor, weight: Weights, bias: Optional[Weights] = None,
                      group: GroupLike = None, *, dim: int = 0, rows: Optional[int] = None,
                      keep_gathered: bool = False,
                      out: Optional[torch.Tensor] = None) -> Union[torch.Tensor, List[torch.Tensor]]:
    """all_gather(x) @ weight.T + bias, with one gather for several weights.

    x              [..., K]: dimension `dim` is dealt to the R ranks
    weight         [N, K], this rank's columns of the result; a list of them gives a list of results,
                   which are views of one tensor. Weights that lie below one another are not copied
    bias           [N] of each weight, or None
    dim            the dimension that is gathered; not the last
    rows           of it, of all ranks, where they do not divide: rank r has the r-th block of
                   ceil(rows / R); None: every rank has as many as this one
    keep_gathered  for the gradients of weights: keep the gathered x, rather than gather it again. The
                   gather is then PyTorch's, before the product
    out            written instead of a new tensor (no gradients)

    Returns [..., N] with R times as many of `dim`. Collective. Raises ValueError for what cannot be, which
    names the ranks that disagree; RuntimeError that names ranks which do not come.
    """
    weights, biases = _listed(weight), _listed(bias)
    tensors, count = (x, *weights, *biases), len(weights)
    is_usual = dim == 0 and rows is None and not keep_gathered
    made = None
    if is_usual:
        made = _again.again("all_gather_matmul", group, count, tensors, None if out is None else (out,))
    if made is None:
        _checks.tensors("all_gather_matmul", x=x, weight=weights, bias=biases)
        _checks.numbers("all_gather_matmul", int, dim=dim)
        _checks.numbers("all_gather_matmul", bool, keep_gathered=keep_gathered)
        _checks.whole_or_none("all_gather_matmul", rows=rows)
        _refuse_tangents("all_gather_matmul", tensors)
        name = seat(group)
        if out is not None:
            _refuse_gradients("all_gather_matmul", *tensors, out)
            torch.ops.stretto.all_gather_matmul.out(x, weights, biases, name, dim, rows, out=out)
            made = out,
        else:
            _wanted.say("all_gather_matmul", x=[x], weight=[] if keep_gathered else weights)
            made = torch.ops.stretto.all_gather_matmul(x, weights, biases, name, dim, rows, keep_gathered)
    if isinstance(weight, torch.Tensor):
        return made[0]
    return list(made[0].split_with_sizes([one.shape[0] for one in weights], -1))


def matmul_reduce_scatter(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None,
                          group: GroupLike = None, *, dim: int = 0,
                          out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """reduce_scatter(x @ weight.T) + bias.

    x       [..., K], this rank's part of K
    weight  [N, K]
    bias    [N], the same on all ranks; its gradient is of all rows
    dim     the dimension that is dealt to the R ranks: rank r gets the r-th block of ceil(size / R)
    out     written instead of a new tensor (no gradients)

    Returns [..., N]. Collective; raises as all_gather_matmul().
    """
    return _product("matmul_reduce_scatter", x, weight, bias, group, out, dim)


def matmul_all_reduce(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None,
                      group: GroupLike = None, *, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """all_reduce(x @ weight.T) + bias, on every rank.

    x [..., K] and weight [N, K] are this rank's part of K; bias [N] is the same on all ranks. The result
    is every rank's, and so is its gradient expected to be. Returns [..., N]. Collective; raises as
    all_gather_matmul().
    """
    return _product("matmul_all_reduce", x, weight, bias, group, out)


def matmul_all_reduce_add_rms_norm(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor,
                                   norm_weight: torch.Tensor, eps: float = 1e-6, group: GroupLike = None, *,
                                   out: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
                                   ) -> Tuple[torch.Tensor, torch.Tensor]:
    """s = all_reduce(x @ weight.T) + residual, and its RMSNorm: (normed, s), on every rank.

    x [..., K] and weight [N, K] are this rank's part of K; residual [..., N] and norm_weight [N] are the
    same on all ranks. normed = s / sqrt(mean(s^2) + eps) * norm_weight, in fp32. out are tensors for both, written
    instead of new ones (no gradients). Collective; raises as all_gather_matmul().
    """
    op, tensors = "matmul_all_reduce_add_rms_norm", (x, weight, residual, norm_weight)
    out = _checks.outputs(op, out, "normed", "s")
    made = _again.again(op, group, eps, tensors, out)
    if made is None:
        _checks.tensors(op, x=x, weight=weight, residual=residual, norm_weight=norm_weight)
        _checks.numbers(op, float, eps=eps)
        _refuse_tangents(op, tensors)
        name, kernel = seat(group), torch.ops.stretto.matmul_all_reduce_add_rms_norm
        if out is None:
            made = kernel(*tensors, eps, name)
        else:
            made = normed, total = out
            _refuse_gradients(op, *tensors, normed, total)
            kernel.out(*tensors, eps, name, out=normed, total=total)
    return made[0], made[1]


KEPT = "backward takes what stands between the products"


def _keeps_products(tensors):
    """Whether an MLP is to be trained where multiplying again costs more than memory does."""
    return getattr(tensors[0], "is_cuda", False) and torch.is_grad_enabled() and any(
        getattr(one, "requires_grad", False) for one in tensors)


def _mlp_in_parts(*given):
    made = _trained.mlp(*given)
    if made is None:
        made = _mlp_of_operators(*given)
    count_left("mlp", f"{IN_PARTS}{KEPT}")
    return made


def _mlp_of_operators(x, ups, biases, down, activation, group, sequence_parallel, dim):
    _refuse_tangents("mlp", (x, *ups, *biases, down))
    _shapes.mlp_rows(x, ups, biases, down, activation, sequence_parallel, dim, ranks_of(seat(group)))
    if sequence_parallel:
        made = all_gather_matmul(x, ups, biases or None, group, dim=dim)
        return matmul_reduce_scatter(Activated.apply(activation, *made), down, group=group, dim=dim)
    made = column_matmul(x, ups, biases or None, group)
    return matmul_all_reduce(Activated.apply(activation, *made), down, group=group)


def mlp(x: torch.Tensor, up: Weights, down: torch.Tensor, group: GroupLike = None, *,
        up_bias: Optional[Weights] = None, activation: str = "swiglu", sequence_parallel: bool = False,
        dim: int = 0, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """A tensor-parallel MLP in one plan: activation(x @ up.T) @ down.T, summed over the ranks.

    x                  [..., H]; with sequence_parallel its dimension `dim` is dealt to the ranks, and so is
                       that of the result; else every rank has all of both
    up                 "swiglu": [gate, up], else one weight; each [F, H], this rank's rows
    down               [H, F], this rank's columns
    up_bias            [F] of each, or None
    activation         "swiglu": silu(gate) * up; "gelu" in its tanh form; "silu"
    out                written instead of a new tensor (no gradients)

    With gradients it is several operators on GPUs, so that what stands between the products is kept; on CPUs they
    compute it again. Returns x's shape. Collective; raises as all_gather_matmul().
    """
    ups, biases = _listed(up), _listed(up_bias)
    tensors, more = (x, *ups, *biases, down), (activation, sequence_parallel, len(ups))
    if out is None and _keeps_products(tensors):
        _checks.tensors("mlp", x=x, up=ups, up_bias=biases, down=down)
        return _mlp_in_parts(x, ups, biases, down, activation, group, sequence_parallel, dim)
    made = None
    if dim == 0:
        made = _again.again("mlp", group, more, tensors, None if out is None else (out,))
    if made is None:
        _checks.tensors("mlp", x=x, up=ups, up_bias=biases, down=down)
        _checks.numbers("mlp", str, activation=activation)
        _checks.numbers("mlp", int, dim=dim)
        _checks.numbers("mlp", bool, sequence_parallel=sequence_parallel)
        _refuse_tangents("mlp", tensors)
        given = x, ups, biases, down, activation, seat(group), sequence_parallel, dim
        if out is None:
            _wanted.say("mlp", any_of_its_tensors=tensors)
            made = torch.ops.stretto.mlp(*given),
        else:
            _refuse_gradients("mlp", *tensors, out)
            torch.ops.stretto.mlp.out(*given, out=out)
            made = out,
    return made[0]


def _needs_no_sum(x, weight, bias, group):
    """Whether a column_matmul() of one weight is but PyTorch's product: without gradients, or on one rank."""
    if not all(isinstance(one, torch.Tensor) and not isinstance(one, _checks.DTensor)
               for one in ((x, weight) if bias is None else (x, weight, bias))):
        return False
    if (x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or x.dtype != weight.dtype or
            (bias is not None and (bias.shape != weight.shape[:1] or bias.dtype != x.dtype))):
        return False  # the operator says what is wrong
    needs_gradient = torch.is_grad_enabled() and (x.requires_grad or _again.is_differentiated())
    return not needs_gradient or ranks_of(seat(group)) == 1


@overload
def column_matmul(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = ...,
                  group: GroupLike = ..., *, out: Optional[torch.Tensor] = ...) -> torch.Tensor: ...


@overload
def column_matmul(x: torch.Tensor, weight: Sequence[torch.Tensor],
                  bias: Optional[Sequence[torch.Tensor]] = ..., group: GroupLike = ..., *,
                  out: Optional[torch.Tensor] = ...) -> List[torch.Tensor]: ...


def column_matmul(x: torch.Tensor, weight: Weights, bias: Optional[Weights] = None, group: GroupLike = None, *,
                  out: Optional[torch.Tensor] = None) -> Union[torch.Tensor, List[torch.Tensor]]:
    """x @ weight.T + bias where every rank has all of x [..., K]: nothing is communicated.

    Its gradient is: that of x is a sum over the ranks (matmul_all_reduce). Weights and out as of all_gather_matmul().
    """
    if out is None and _needs_no_sum(x, weight, bias, group):
        return torch.nn.functional.linear(x, weight, bias)
    weights, biases = _listed(weight), _listed(bias)
    if out is None:
        made = _again.columns(group, x, weights, biases)
        if made is None:
            _checks.tensors("column_matmul", x=x, weight=weights, bias=biases)
            _refuse_tangents("column_matmul", (x, *weights, *biases))
            made = torch.ops.stretto.column_matmul(x, weights, biases, seat(group))
    else:
        _refuse_gradients("column_matmul", x, *weights, *biases, out)
        torch.ops.stretto.column_matmul.out(x, weights, biases, seat(group), out=out)
        made = out
    if isinstance(weight, torch.Tensor):
        return made
    return list(made.split_with_sizes([one.shape[0] for one in weights], -1))
