"""What every rank gets whole of parts: its gradient is expected to be the same on all ranks, and is not summed."""

import torch

from . import ops  # noqa: F401  (defines torch.ops.stretto)
from .groups import rank_of, ranks_of


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        ctx.begin, ctx.columns = rank_of(group) * y.shape[-1], y.shape[-1]
        return torch.ops.stretto.all_gather(y.unsqueeze(0), group).movedim(0, -2).flatten(-2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.narrow(-1, ctx.begin, ctx.columns).contiguous(), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        return torch.ops.stretto.all_reduce(y, group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def gathered_columns(y: torch.Tensor, group: str) -> torch.Tensor:
    """[..., R * n] of every rank's [..., n], the columns of rank 0 first. Collective."""
    return y if ranks_of(group) == 1 else _Gathered.apply(y, group)


def summed(y: torch.Tensor, group: str) -> torch.Tensor:
    """The sum of every rank's. Collective."""
    return y if ranks_of(group) == 1 else _Sum.apply(y, group)
