"""Parts of mixtures of experts as functions: what comes ahead of other products, and behind them."""

from typing import Tuple

import torch
import torch.nn.functional as F

from . import _calls, _checks, _collectives, _experts
from .functional import _refuse_tangents
from .graphs import run_graph
from .groups import GroupLike, find, ranks_of, seat


def _served(graph, tensors, name, sizes):
    """One run of a shipped graph. PyTorch keeps what gradients want, not what the run is made of."""
    with torch.no_grad():
        return run_graph(graph + _calls.ENDINGS[tensors["ids"].dtype], tensors, find(name), sizes=sizes)


def _checked(op, **tensors):
    """Two dimensions each, three of experts, ids of a type that graphs take."""
    _checks.tensors(op, **tensors)
    _refuse_tangents(op, tensors.values())
    for name, one in tensors.items():
        dims = 3 if name in ("gate", "up", "down") else 2
        _checks.require(one.dim() == dims, op, f"{name} is {_checks.shape_text(one)}; {dims} dimensions were expected")
    ids = tensors["ids"]
    _checks.require(_checks.are_whole(ids), op, f"ids is {ids.dtype}; whole numbers were expected")
    return _calls.as_ids(ids).contiguous()


def _rows_of(ids, first, count):
    """By expert of `count` from `first` on: the choices of it, tokens' one after the other."""
    flat = ids.flatten()
    return [(flat == first + expert).nonzero(as_tuple=True)[0] for expert in range(count)]


def _up(x, ids, gate, up):
    made, k = x.new_zeros(ids.numel(), gate.shape[1]), ids.shape[1]
    for expert, rows in enumerate(_rows_of(ids, 0, len(gate))):
        own = x[rows // k]
        made = made.index_copy(0, rows, F.silu(F.linear(own, gate[expert])) * F.linear(own, up[expert]))
    return made


def _down(a, ids, weights, down):
    made, k = a.new_zeros(len(ids), down.shape[1], dtype=torch.promote_types(a.dtype, torch.float32)), ids.shape[1]
    for expert, rows in enumerate(_rows_of(ids, 0, len(down))):
        one = F.linear(a[rows], down[expert]).to(made.dtype) * weights.flatten()[rows, None].to(made.dtype)
        made = made.index_add(0, rows // k, one)
    return made


class _MoeUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ids, gate, up, name):
        ctx.save_for_backward(x, ids, gate, up)
        ctx.name, ranks = name, ranks_of(name)
        sizes = {"t": len(x) * ranks, "h": x.shape[1], "f": gate.shape[1] * ranks, "experts": len(gate),
                 "k": ids.shape[1]}
        return _served("moe-tp-up", {"x": x, "ids": ids, "wg": gate, "wu": up}, name, sizes)["a"]

    @staticmethod
    def backward(ctx, da):
        x, ids, gate, up = ctx.saved_tensors
        group = find(ctx.name)
        all_x, all_ids = (_collectives.all_gather(group, one.contiguous()) for one in (x, ids))
        dx, dgate, dup = _experts.gradients(lambda x, gate, up: _up(x, all_ids, gate, up), (all_x, gate, up), da)
        return _collectives.reduce_scatter(group, dx), None, dgate, dup, None


class _MoeDown(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, ids, weights, down, name):
        ctx.save_for_backward(a, ids, weights, down)
        ctx.name, ranks = name, ranks_of(name)
        sizes = {"t": len(ids), "h": down.shape[1], "f": a.shape[1] * ranks, "experts": len(down), "k": ids.shape[1]}
        given = {"a": a, "ids": ids, "weights": weights.float(), "wd": down}
        return _served("moe-tp-down", given, name, sizes)["y"]

    @staticmethod
    def backward(ctx, dy):
        a, ids, weights, down = ctx.saved_tensors
        group = find(ctx.name)
        whole = _collectives.all_gather(group, dy.contiguous())
        da, dweights, ddown = _experts.gradients(lambda a, weights, down: _down(a, ids, weights, down),
                                                 (a, weights, down), whole)
        return da, None, _collectives.all_reduce(group, dweights), ddown, None


def _moved(ids, h, experts):
    return {"t": len(ids), "h": h, "experts": experts, "k": ids.shape[1]}


def _is_own(ids, experts, name):
    """[t*k, 1]: whether a choice's expert is this rank's."""
    first, count = _experts.own_experts(experts, find(name).rank, ranks_of(name))
    flat = ids.flatten()[:, None]
    return (flat >= first) & (flat < first + count)


class _Dispatch(torch.autograd.Function):
    """Its gradient is a combine whose weights are 1, and the other way round."""

    @staticmethod
    def forward(ctx, x, ids, experts, name):
        ctx.save_for_backward(ids)
        ctx.experts, ctx.name = experts, name
        made = _served("dispatch", {"x": x, "ids": ids}, name, _moved(ids, x.shape[1], experts))
        ctx.mark_non_differentiable(made["counts"])
        return made["d"], made["counts"]

    @staticmethod
    def backward(ctx, dd, _):
        ids, = ctx.saved_tensors
        ones = torch.ones(len(ids) // ranks_of(ctx.name), ids.shape[1], device=ids.device)
        given = {"d": dd.contiguous(), "ids": ids, "weights": ones}
        dx = _served("combine", given, ctx.name, _moved(ids, dd.shape[1], ctx.experts))["y"]
        return dx, None, None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, d, ids, weights, experts, name):
        ctx.save_for_backward(d, ids, weights)
        ctx.experts, ctx.name = experts, name
        given = {"d": d, "ids": ids, "weights": weights.float()}
        return _served("combine", given, name, _moved(ids, d.shape[1], experts))["y"]

    @staticmethod
    def backward(ctx, dy):
        d, ids, weights = ctx.saved_tensors
        group = find(ctx.name)
        given = {"x": dy.contiguous(), "ids": ids}
        back = _served("dispatch", given, ctx.name, _moved(ids, dy.shape[1], ctx.experts))["d"]
        own, wide = _is_own(ids, ctx.experts, ctx.name), torch.promote_types(d.dtype, torch.float32)
        # Rows of other ranks' experts are nobody's here: whatever stands there counts for nothing.
        back, rows = (torch.where(own, one, 0).to(wide) for one in (back, d))
        all_weights = _collectives.all_gather(group, weights.contiguous())
        dd = (back * all_weights.flatten()[:, None].to(wide)).to(d.dtype)
        dweights = _collectives.reduce_scatter(group, (back * rows).sum(1).reshape(ids.shape))
        return dd, None, dweights.to(weights.dtype), None, None


def moe_up(x: torch.Tensor, ids: torch.Tensor, gate: torch.Tensor, up: torch.Tensor,
           group: GroupLike = None) -> torch.Tensor:
    """For each choice of each token of all ranks silu(x @ gate.T) * (x @ up.T) by its expert, whose width is cut.

    x         [t, H], this rank's tokens, as many on every rank
    ids       [t, k] of them, int32 or int64
    gate, up  [E, F, H]: of all experts this rank's part of F

    Returns [tokens of all ranks * k, F]; rows of ids that are no expert's may be anything. Gradients are PyTorch's.
    Collective; raises ValueError, for what is not served too.
    """
    ids = _checked("moe_up", x=x, ids=ids, gate=gate, up=up)
    return _MoeUp.apply(x, ids, gate, up, seat(group))


def moe_down(a: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, down: torch.Tensor,
             group: GroupLike = None) -> torch.Tensor:
    """For each token the sum over its choices c of weights[c] * a[c] @ down[ids[c]].T, over all ranks' parts of F.

    a             [T * k, F], as moe_up() makes them
    ids, weights  [T, k] of the tokens of all ranks, the same on every rank; the gradient of weights is a sum over ranks
    down          [E, H, F]: of all experts this rank's part of F

    Returns this rank's tokens, [T / R, H]. Otherwise as moe_up().
    """
    ids = _checked("moe_down", a=a, ids=ids, weights=weights, down=down)
    return _MoeDown.apply(a, ids, weights, down, seat(group))


def dispatch(x: torch.Tensor, ids: torch.Tensor, experts: int,
             group: GroupLike = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """Each token to who has an expert that it chose: rank r has the r-th block of ceil(experts / R).

    x    [T / R, H], this rank's tokens
    ids  [T, k] of the tokens of all ranks, the same on every rank

    Returns [T * k, H], a row for each choice, of which those have their token whose expert is this rank's, and others
    may be anything; and how many rows each of this rank's experts has got, int32. Otherwise as moe_up().
    """
    ids = _checked("dispatch", x=x, ids=ids)
    _checks.numbers("dispatch", int, experts=experts)
    return _Dispatch.apply(x, ids, experts, seat(group))


def combine(d: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, experts: int,
            group: GroupLike = None) -> torch.Tensor:
    """The way back of dispatch(): for each token of this rank the sum over its choices c of weights[c] * d[c].

    d        [T * k, H], as dispatch() makes them: rows of other ranks' experts are not looked at
    ids      [T, k] of all ranks' tokens, as dispatch() takes them
    weights  [T / R, k] of this rank's

    Returns [T / R, H]. Otherwise as moe_up().
    """
    ids = _checked("combine", d=d, ids=ids, weights=weights)
    _checks.numbers("combine", int, experts=experts)
    return _Combine.apply(d, ids, weights, experts, seat(group))
