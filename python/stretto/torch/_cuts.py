"""How a tensor of a layer is dealt to the ranks of a group, which checkpoints have whole."""

import dataclasses
from typing import Sequence, Tuple

import torch

from .groups import rank_of, ranks_of


def share(size: int, group: str, what: str) -> int:
    """What one rank has of `size`. Raises ValueError where the ranks do not divide it: a layer that is cast would have
    other shares in its new type, since operators deal columns that do not divide in blocks of 16 bytes.
    """
    ranks = ranks_of(group)
    if size % ranks or size == 0:
        below = size // ranks * ranks
        near = f"{below} or {below + ranks}" if below else f"{ranks}"
        raise ValueError(f"{what} is {size} and does not divide by {ranks} ranks: layers have shares of one size; take "
                         f"{near}")
    return size // ranks


@dataclasses.dataclass(frozen=True)
class Cut:
    """Every rank has its part of dimension `dim`, of which there are `size` in all."""

    dim: int
    size: int
    rank: int
    ranks: int

    @classmethod
    def of(cls, tensor: torch.Tensor, group: str, dim: int, what: str) -> "Cut":
        share(tensor.shape[dim], group, what)
        return cls(dim, tensor.shape[dim], rank_of(group), ranks_of(group))

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part of a whole tensor: a view of it."""
        part = self.size // self.ranks
        return whole.narrow(self.dim, self.rank * part, part)

    def whole_shape(self, own: Sequence[int]) -> Tuple[int, ...]:
        """The shape of the whole tensor, of whose part the shape is `own`."""
        return (*own[:self.dim], self.size, *own[self.dim + 1:])


def in_memory_of_its_own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without gaps, which keeps nothing else of the tensor's memory alive."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
