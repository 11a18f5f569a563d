"""Operators as functions: what a model calls. Groups are ProcessGroups, meshes of one dimension or names."""

from typing import List, Optional, Sequence, Tuple, Union, overload

import torch

from . import _again, ops  # noqa: F401  (defines torch.ops.stretto)
from ._gradients import GRADIENTS
from .groups import GroupLike, ranks_of, seat

Weights = Union[torch.Tensor, Sequence[torch.Tensor]]


def _listed(one_or_many):
    if one_or_many is None:
        return []
    return [one_or_many] if isinstance(one_or_many, torch.Tensor) else list(one_or_many)


def _refuse_gradients(op, *tensors):
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in tensors):
        raise ValueError(f"{op}: out has no gradient: call it under torch.no_grad(), or without out")


class _Graded(torch.autograd.Function):
    """_usual() with the gradients of the dispatcher's operator, which takes the host some times as long."""

    @staticmethod
    def forward(ctx, x, weight, bias, name, dim, op, group):
        made = _usual(op, group, (x, weight))
        ctx.back = GRADIENTS[op]
        ctx.back.keep(ctx, (x, weight, bias, name, dim)[:ARGUMENTS[op]], made)
        return made

    @staticmethod
    def backward(ctx, gradient):
        found = ctx.back.backward(ctx, gradient)
        return (*found, *[None] * (len(ctx.needs_input_grad) - len(found)))


ARGUMENTS = {"matmul_all_reduce": 4, "matmul_reduce_scatter": 5}


def _usual(op, group, tensors):
    """An operator of x and weight, by rows of the first dimension."""
    if _again.needs_gradient(tensors):
        return _Graded.apply(*tensors, None, seat(group), 0, op, group)
    made = _again.again(op, group, None, tensors)
    if made is not None:
        return made[0]
    made = getattr(torch.ops.stretto, op)(*tensors, None, seat(group))
    _again.learn(op, group, None, tensors, [made])
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
    is_usual = out is None and dim == 0 and rows is None and not keep_gathered and isinstance(weight, torch.Tensor)
    if is_usual:
        tensors = (x, weight) if bias is None else (x, weight, bias)
        again = _again.again("all_gather_matmul", group, None, tensors)
        if again is not None:
            return again[0]
    weights, biases, name = _listed(weight), _listed(bias), seat(group)
    if out is not None:
        _refuse_gradients("all_gather_matmul", x, *weights, *biases)
        torch.ops.stretto.all_gather_matmul.out(x, weights, biases, name, dim, rows, out=out)
        made = out
    else:
        made, _ = torch.ops.stretto.all_gather_matmul(x, weights, biases, name, dim, rows, keep_gathered)
    if is_usual:
        _again.learn("all_gather_matmul", group, None, tensors, [made])
    if isinstance(weight, torch.Tensor):
        return made
    return list(made.split([one.shape[0] for one in weights], dim=-1))


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
    if out is None and bias is None and dim == 0:
        return _usual("matmul_reduce_scatter", group, (x, weight))
    name = seat(group)
    if out is None:
        return torch.ops.stretto.matmul_reduce_scatter(x, weight, bias, name, dim)
    _refuse_gradients("matmul_reduce_scatter", x, weight, bias)
    torch.ops.stretto.matmul_reduce_scatter.out(x, weight, bias, name, dim, out=out)
    return out


def matmul_all_reduce(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None,
                      group: GroupLike = None, *, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """all_reduce(x @ weight.T) + bias, on every rank.

    x [..., K] and weight [N, K] are this rank's part of K; bias [N] is the same on all ranks. The result
    is every rank's, and so is its gradient expected to be. Returns [..., N]. Collective; raises as
    all_gather_matmul().
    """
    if out is None and bias is None:
        return _usual("matmul_all_reduce", group, (x, weight))
    name = seat(group)
    if out is None:
        return torch.ops.stretto.matmul_all_reduce(x, weight, bias, name)
    _refuse_gradients("matmul_all_reduce", x, weight, bias)
    torch.ops.stretto.matmul_all_reduce.out(x, weight, bias, name, out=out)
    return out


def matmul_all_reduce_add_rms_norm(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor,
                                   norm_weight: torch.Tensor, eps: float = 1e-6,
                                   group: GroupLike = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """s = all_reduce(x @ weight.T) + residual, and its RMSNorm: (normed, s), on every rank.

    x [..., K] and weight [N, K] are this rank's part of K; residual [..., N] and norm_weight [N] are the
    same on all ranks. normed = s / sqrt(mean(s^2) + eps) * norm_weight, in fp32. Collective; raises as
    all_gather_matmul().
    """
    tensors = (x, weight, residual, norm_weight)
    made = _again.again("matmul_all_reduce_add_rms_norm", group, eps, tensors)
    if made is None:
        made = torch.ops.stretto.matmul_all_reduce_add_rms_norm(*tensors, eps, seat(group))
        _again.learn("matmul_all_reduce_add_rms_norm", group, eps, tensors, made)
    return made[0], made[1]


def mlp(x: torch.Tensor, up: Weights, down: torch.Tensor, group: GroupLike = None, *,
        up_bias: Optional[Weights] = None, activation: str = "swiglu", sequence_parallel: bool = False,
        dim: int = 0) -> torch.Tensor:
    """A tensor-parallel MLP in one plan: activation(x @ up.T) @ down.T, summed over the ranks.

    x                  [..., H]; with sequence_parallel its dimension `dim` is dealt to the ranks, and so is
                       that of the result; else every rank has all of both
    up                 "swiglu": [gate, up], else one weight; each [F, H], this rank's rows
    down               [H, F], this rank's columns
    up_bias            [F] of each, or None
    activation         "swiglu": silu(gate) * up; "gelu" in its tanh form; "silu"

    Gradients compute what stood between the products again. Returns x's shape. Collective; raises as
    all_gather_matmul().
    """
    ups, biases = _listed(up), _listed(up_bias)
    is_usual = not biases and dim == 0 and len(ups) in (1, 2)
    if is_usual:
        more = activation, sequence_parallel
        again = _again.again("mlp", group, more, (x, *ups, down))
        if again is not None:
            return again[0]
    made = torch.ops.stretto.mlp(x, ups, biases, down, activation, seat(group), sequence_parallel, dim)
    if is_usual:
        _again.learn("mlp", group, more, (x, *ups, down), [made])
    return made


def moe(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, gate: torch.Tensor, up: torch.Tensor,
        down: torch.Tensor, group: GroupLike = None, *, expert_parallel: bool = False) -> torch.Tensor:
    """A mixture of experts: for each token the sum over its choices c of weights[c] * expert ids[c] of it, an MLP
    silu(x @ gate.T) * (x @ up.T) @ down.T.

    x                [..., H], this rank's tokens, as many on each rank
    ids, weights     [..., k]: the experts that a token has chosen, whole numbers, and their parts of its sum. An id
                     that is no expert's adds nothing
    gate, up         [E, F, H], down [E, H, F]: of all experts this rank's part of F; with expert_parallel all of this
                     rank's experts, the r-th block of them

    Runs on CPU tensors; on GPUs PyTorch does it, which is counted. Gradients are PyTorch's. Returns x's shape.
    Collective; raises as all_gather_matmul().
    """
    return torch.ops.stretto.moe(x, ids, weights, gate, up, down, seat(group), expert_parallel)


def _needs_no_sum(x, weight, bias, group):
    """Whether a column_matmul() of one weight is but PyTorch's product: without gradients, or on one rank."""
    if not isinstance(weight, torch.Tensor) or not (bias is None or isinstance(bias, torch.Tensor)):
        return False
    if (x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or x.dtype != weight.dtype or
            (bias is not None and (bias.shape != weight.shape[:1] or bias.dtype != x.dtype))):
        return False  # the operator says what is wrong
    return not (torch.is_grad_enabled() and x.requires_grad) or ranks_of(seat(group)) == 1


@overload
def column_matmul(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = ...,
                  group: GroupLike = ...) -> torch.Tensor: ...


@overload
def column_matmul(x: torch.Tensor, weight: Sequence[torch.Tensor],
                  bias: Optional[Sequence[torch.Tensor]] = ...,
                  group: GroupLike = ...) -> List[torch.Tensor]: ...


def column_matmul(x: torch.Tensor, weight: Weights, bias: Optional[Weights] = None,
                  group: GroupLike = None) -> Union[torch.Tensor, List[torch.Tensor]]:
    """x @ weight.T + bias where every rank has all of x [..., K]: nothing is communicated.

    Its gradient is: that of x is a sum over the ranks (matmul_all_reduce). Weights as of all_gather_matmul().
    """
    if _needs_no_sum(x, weight, bias, group):
        return torch.nn.functional.linear(x, weight, bias)
    weights = _listed(weight)
    made = torch.ops.stretto.column_matmul(x, weights, _listed(bias), seat(group))
    if isinstance(weight, torch.Tensor):
        return made
    return list(made.split([one.shape[0] for one in weights], dim=-1))
