"""How a tensor of a layer is dealt to the ranks of a group, which checkpoints have whole."""

import dataclasses
from typing import Optional, Sequence, Tuple

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
    """Every rank has its part of dimension `dim`.

    parts  sizes of what lies behind one another in this dimension of the whole tensor, each of which is dealt by
           itself: a rank has its part of the first, then that of the second
    """

    dim: int
    parts: Tuple[int, ...]
    rank: int
    ranks: int

    @classmethod
    def of(cls, tensor: torch.Tensor, group: str, dim: int, what: str,
           parts: Optional[Sequence[int]] = None) -> "Cut":
        """Raises ValueError where ranks do not divide a part, or parts are not all of it."""
        size = tensor.shape[dim]
        parts = (size,) if parts is None else tuple(parts)
        if sum(parts) != size:
            raise ValueError(f"{what} is {size}, and its parts {', '.join(map(str, parts))} are {sum(parts)}")
        for part in parts:
            share(part, group, what if len(parts) == 1 else f"a part of {what}")
        return cls(dim, parts, rank_of(group), ranks_of(group))

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part of a whole tensor: a view of it, where there is but one part."""
        begin, own = 0, []
        for part in self.parts:
            size = part // self.ranks
            own.append(whole.narrow(self.dim, begin + self.rank * size, size))
            begin += part
        return own[0] if len(own) == 1 else torch.cat(own, self.dim)

    def whole_shape(self, own: Sequence[int]) -> Tuple[int, ...]:
        """The shape of the whole tensor, of whose part the shape is `own`."""
        return (*own[:self.dim], sum(self.parts), *own[self.dim + 1:])


def in_memory_of_its_own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without gaps, which keeps nothing else of the tensor's memory alive."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
