"""Mixtures of experts as functions."""

from typing import Optional

import torch

from . import _again
from .functional import _refuse_gradients, _refuse_tangents
from .groups import GroupLike, seat


def moe(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, gate: torch.Tensor, up: torch.Tensor,
        down: torch.Tensor, group: GroupLike = None, *, expert_parallel: bool = False, rows: Optional[int] = None,
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
                     last ones fewer or none; None: every rank has as many as this one
    out              written instead of a new tensor (no gradients)

    Gradients are PyTorch's. Returns x's shape. Collective; raises as all_gather_matmul().
    """
    tensors = x, ids, weights, gate, up, down
    made = None
    if rows is None:
        made = _again.again("moe", group, expert_parallel, tensors, None if out is None else (out,))
    if made is None:
        _refuse_tangents("moe", tensors)
        if out is None:
            made = torch.ops.stretto.moe(*tensors, seat(group), expert_parallel, rows),
        else:
            _refuse_gradients("moe", *tensors, out)
            torch.ops.stretto.moe.out(*tensors, seat(group), expert_parallel, rows, out=out)
            made = out,
    return made[0]
