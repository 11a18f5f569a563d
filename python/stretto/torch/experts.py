"""Mixtures of experts as functions."""

from typing import Optional, Tuple

import torch

from . import _again, _checks
from .functional import _refuse_gradients, _refuse_tangents
from .groups import GroupLike, seat


def moe(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, gate: torch.Tensor, up: torch.Tensor,
        down: torch.Tensor, group: GroupLike = None, *, expert_parallel: bool = False, rows: Optional[int] = None,
        sequence_parallel: bool = True, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """A mixture of experts: for each token the sum over its choices c of weights[c] * expert ids[c] of it, an MLP
    silu(x @ gate.T) * (x @ up.T) @ down.T.

    x                [..., H], this rank's tokens
    ids, weights     [..., k]: the experts that a token has chosen, whole numbers, and their parts of its sum. An id
                     that is no expert's adds nothing. Ids of int32 and int64 and weights of fp32 and of x's type are
                     taken as they are; others are cast at every call
    gate, up         [E, F, H], down [E, H, F]: of all experts this rank's part of F; with expert_parallel all of this
                     rank's experts, the r-th block of them
    rows             tokens of all ranks, where they do not divide: rank r has the r-th block of ceil(rows / R), the
                     last ones fewer or none; None: every rank has as many as this one
    sequence_parallel  False: every rank has all tokens, the same ids and weights, and gets all of y. Experts are cut
                     then, not dealt
    out              written instead of a new tensor (no gradients)

    Gradients are PyTorch's. Returns x's shape. Collective; raises as all_gather_matmul().
    """
    tensors = x, ids, weights, gate, up, down
    more = expert_parallel, rows, sequence_parallel
    made = _again.again("moe", group, more, tensors, None if out is None else (out,))
    if made is None:
        _checks.tensors("moe", x=x, ids=ids, weights=weights, gate=gate, up=up, down=down)
        _refuse_tangents("moe", tensors)
        if out is None:
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

    router           [experts, H], the same on all ranks, for all experts; its gradient is of all ranks' tokens
    bias             [experts], added to sigmoids of scores for the choice alone (DeepSeek's e_score_correction_bias);
                     it has no gradient
    scores           what choices weigh: "softmax" or "sigmoid" of their scores
    normalise        weights of a token add up to 1; else they are the chosen experts' part of a softmax of all, or
                     sigmoids as they are
    scale            what weights are multiplied with then
    groups, best     choose from the `best` of so many groups of experts, side by side. A group is as good as its best
                     expert; with a bias, as its two best together
    out              tensors for all three, written instead of new ones (no gradients)
    x, gate, up, down, expert_parallel and rows as of moe()

    Returns (y, ids, weights): x's shape, and what was chosen and how it was weighed, [..., k] of int32 and fp32, best
    first. A token with a NaN chooses nothing: its ids are -2, and its y and gradient 0. Weights have gradients, for
    losses of their own; ids have none. Collective; raises as all_gather_matmul().
    """
    op, tensors = "moe_with_router", (x, router, gate, up, down, *([] if bias is None else [bias]))
    out = _checks.outputs(op, out, "y", "ids", "weights")
    more = k, scores, normalise, scale, groups, best, expert_parallel, rows
    made = _again.again(op, group, more, tensors, out)
    if made is None:
        _checks.numbers(op, int, k=k, groups=groups, best=best)
        _checks.numbers(op, float, scale=scale)
        _checks.numbers(op, str, scores=scores)
        _checks.tensors(op, x=x, router=router, gate=gate, up=up, down=down, bias=[] if bias is None else bias)
        _refuse_tangents(op, tensors)
        given, kernel = (x, router, gate, up, down, bias, seat(group), *more), torch.ops.stretto.moe_with_router
        if out is None:
            made = kernel(*given)
        else:
            _refuse_gradients(op, *tensors, *out)
            made = y, ids, weights = out
            kernel.out(*given, out=y, ids=ids, weights=weights)
    return made[0], made[1], made[2]
