"""What every rank gets whole of parts: its gradient is expected to be the same on all ranks, and is not summed."""

from typing import Tuple

import torch

from . import ops  # noqa: F401  (defines torch.ops.stretto)
from ._cuts import filled
from ._last import of_first
from .groups import rank_of, ranks_of


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group, sizes):
        rank = rank_of(group)
        ctx.begin, ctx.own, ctx.columns = sum(sizes[:rank]), sizes[rank], y.shape[-1]
        by_rank = torch.ops.stretto.all_gather(y.unsqueeze(0), group).movedim(0, -2)
        if sizes == (y.shape[-1],) * len(sizes):
            return by_rank.flatten(-2)
        return torch.cat([by_rank[..., rank, :size] for rank, size in enumerate(sizes)], -1)

    @staticmethod
    def backward(ctx, gradient):
        own = filled(gradient.narrow(-1, ctx.begin, ctx.own), -1, ctx.columns).contiguous()
        return of_first("columns that are gathered", own), None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        return torch.ops.stretto.all_reduce(y, group)

    @staticmethod
    def backward(ctx, gradient):
        return of_first("rows of a vocabulary that is dealt", gradient), None


def gathered_columns(y: torch.Tensor, group: str, sizes: Tuple[int, ...]) -> torch.Tensor:
    """All ranks' columns, those of rank 0 first: of every rank's [..., n] the first sizes[rank]. Collective.
    """
    return y if ranks_of(group) == 1 else _Gathered.apply(y, group, sizes)


def summed(y: torch.Tensor, group: str) -> torch.Tensor:
    """The sum of every rank's. Collective."""
    return y if ranks_of(group) == 1 else _Sum.apply(y, group)
