"""Mixtures of experts as functions."""

import math
from typing import Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F

from . import _again, _calls, _checks, _experts, _wanted
from .functional import _refuse_gradients, _refuse_tangents
from .groups import GroupLike, place, seat
from .report import UNLIKE, count_copy

RowsLike = Union[None, int, Sequence[int]]
FILL = {"x": 0, "ids": -1, "weights": 0}  # tokens that choose nothing


def _added(x, rows, group):
    """By how many tokens another rank has more than this one, of ranks that have so many each."""
    rank, ranks = place(seat(group))
    for index, count in enumerate(rows):
        _checks.numbers("moe", int, **{f"rows[{index}]": count})
    _checks.require(len(rows) == ranks and min(rows) >= 0, "moe",
                    f"rows is {list(rows)}; a number for each of {ranks} ranks was expected, or one of all tokens")
    own = math.prod(x.shape[:-1])
    _checks.require(own == rows[rank], "moe",
                    f"x has {own} tokens; of rows={list(rows)} rank {rank} has {rows[rank]}")
    return max(rows) - own


def _filled(name, tensor, added):
    if name == "ids" and _checks.are_whole(tensor) and not tensor.dtype.is_signed:
        tensor = _calls.as_ids(tensor)
    if added and not torch.compiler.is_compiling():
        num_bytes = (math.prod(tensor.shape[:-1]) + added) * tensor.shape[-1] * tensor.element_size()
        count_copy("moe", name, UNLIKE, num_bytes)
    return F.pad(tensor.flatten(0, -2), (0, 0, 0, added), value=FILL[name])


def _moe_of_any(x, ids, weights, experts, group, rows, out, **more):
    """Of ranks with different numbers of tokens: each has those of the rank with most, its own ones first."""
    _experts.check(x, ids, weights, *experts)  # before there are more tokens
    added = _added(x, rows, group)
    made = moe(*(_filled(*one, added) for one in (("x", x), ("ids", ids), ("weights", weights))), *experts, group,
               **more)
    made = made[:made.shape[0] - added].reshape(x.shape)
    if out is None:
        return made
    inputs = dict(zip(("x", "ids", "weights", "gate", "up", "down"), (x, ids, weights, *experts)))
    _refuse_gradients("moe", *inputs.values(), out)
    _checks.output("moe", "out", out, x.shape, x.dtype, x.device)
    _checks.apart("moe", "out", out, inputs)
    return out.copy_(made)


def moe(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, gate: torch.Tensor, up: torch.Tensor,
        down: torch.Tensor, group: GroupLike = None, *, expert_parallel: bool = False, rows: RowsLike = None,
        sequence_parallel: bool = True, num_experts: Optional[int] = None,
        out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """A mixture of experts: for each token the sum over its choices c of weights[c] * expert ids[c] of it, an MLP
    silu(x @ gate.T) * (x @ up.T) @ down.T.

    x                [..., H], this rank's tokens
    ids, weights     [..., k]: the experts that a token has chosen, whole numbers, and their parts of its sum. An id
                     that is no expert's adds nothing. Ids of int32 and int64 and weights of fp32 and of x's type are
                     taken as they are; others are cast at every call
    gate, up         [E, F, H], down [E, H, F]: of all experts this rank's part of F; with expert_parallel all of this
                     rank's experts, the r-th block of them
    rows             tokens of all ranks, where they do not divide: rank r has the r-th block of ceil(rows / R), the
                     last ones fewer or none. Or of each rank, [7, 0, 3]: any numbers, the same list on all ranks, of
                     which each has the tokens of the rank with most, by a copy. None: every rank has as many as this
                     one
    sequence_parallel  False: every rank has all tokens, the same ids and weights, and gets all of y. Experts are cut
                     then, not dealt
    num_experts      of all ranks, with expert_parallel, where they do not divide: rank r has the r-th block of
                     ceil(num_experts / R), the last ones fewer or none; None: every rank has as many as this one
    out              written instead of a new tensor (no gradients)

    Gradients are PyTorch's. Returns x's shape. Collective; raises as all_gather_matmul().
    """
    tensors = x, ids, weights, gate, up, down
    if isinstance(rows, (list, tuple)):
        _checks.tensors("moe", x=x, ids=ids, weights=weights, gate=gate, up=up, down=down)
        _checks.require(sequence_parallel, "moe",
                        f"rows is {list(rows)}, and with sequence_parallel=False every rank has all")
        return _moe_of_any(x, ids, weights, (gate, up, down), group, rows, out, expert_parallel=expert_parallel,
                           num_experts=num_experts)
    more = expert_parallel, rows, sequence_parallel, num_experts
    made = _again.again("moe", group, more, tensors, None if out is None else (out,))
    if made is None:
        _checks.tensors("moe", x=x, ids=ids, weights=weights, gate=gate, up=up, down=down)
        _checks.whole_or_none("moe", rows=rows, num_experts=num_experts)
        _checks.numbers("moe", bool, expert_parallel=expert_parallel, sequence_parallel=sequence_parallel)
        _refuse_tangents("moe", tensors)
        if out is None:
            _wanted.say("moe", any_of_its_tensors=tensors)
            made = torch.ops.stretto.moe(*tensors, seat(group), *more),
        else:
            _refuse_gradients("moe", *tensors, out)
            torch.ops.stretto.moe.out(*tensors, seat(group), *more, out=out)
            made = out,
    return made[0]


def moe_with_router(x: torch.Tensor, router: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor,
                    k: int, group: GroupLike = None, *, bias: Optional[torch.Tensor] = None, scores: str = "softmax",
                    normalise: bool = True, scale: float = 1.0, groups: int = 1, best: int = 1,
                    expert_parallel: bool = False, rows: Optional[int] = None,
                    out: Optional[Tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = None
                    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """moe(), and the router in the same plan: each token takes the k experts that x @ router.T is highest for.

    router           [experts, H], the same on all ranks, for all experts; its gradient is of all ranks' tokens. With
                     expert_parallel rank r has the r-th block of ceil(experts / R) of them
    bias             [experts], added to sigmoids of scores for the choice alone (DeepSeek's e_score_correction_bias);
                     it has no gradient
    scores           what choices weigh: "softmax" or "sigmoid" of their scores
    normalise        weights of a token add up to 1; else they are the chosen experts' part of a softmax of all, or
                     sigmoids as they are
    scale            what weights are multiplied with then
    groups, best     choose from the `best` of so many groups of experts, side by side. A group is as good as its best
                     expert; with a bias, as its two best together
    out              tensors for all three, written instead of new ones (no gradients)
    x, gate, up, down, expert_parallel and rows, a number, as of moe()

    Returns (y, ids, weights): x's shape, and what was chosen and how it was weighed, [..., k] of int32 and fp32, best
    first. A token with a NaN chooses nothing: its ids are -2, and its y and gradient 0. Weights have gradients, for
    losses of their own; ids have none. Collective; raises as all_gather_matmul().
    """
    op, tensors = "moe_with_router", (x, router, gate, up, down, *([] if bias is None else [bias]))
    out = _checks.outputs(op, out, "y", "ids", "weights")
    _checks.whole_or_none(op, rows=rows)
    more = k, scores, normalise, scale, groups, best, expert_parallel, rows
    made = _again.again(op, group, more, tensors, out)
    if made is None:
        _checks.numbers(op, int, k=k, groups=groups, best=best)
        _checks.numbers(op, float, scale=scale)
        _checks.numbers(op, str, scores=scores)
        _checks.numbers(op, bool, normalise=normalise, expert_parallel=expert_parallel)
        _checks.tensors(op, x=x, router=router, gate=gate, up=up, down=down, bias=[] if bias is None else bias)
        _refuse_tangents(op, tensors)
        given, kernel = (x, router, gate, up, down, bias, seat(group), *more), torch.ops.stretto.moe_with_router
        if out is None:
            _wanted.say(op, any_of_its_tensors=tensors)
            made = kernel(*given)
        else:
            _refuse_gradients(op, *tensors, *out)
            made = y, ids, weights = out
            kernel.out(*given, out=y, ids=ids, weights=weights)
    return made[0], made[1], made[2]
