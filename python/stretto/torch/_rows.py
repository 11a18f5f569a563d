"""Leading dimensions as rows: which dimension the ranks share, and rows that they do not divide."""

import math

import torch


class Rows:
    """A tensor [..., K] whose dimension `dim` is dealt to ranks in blocks of ceil(total / ranks).

    total   of dimension `dim`, of all ranks
    block   so many of it every rank has; the last ranks may have fewer, or none
    others  the other leading dimensions, in their order
    """

    def __init__(self, shape, dim, total, ranks):
        self.dim, self.total, self.ranks = dim, total, ranks
        self.block = (total + ranks - 1) // ranks
        self.others = tuple(shape[:dim]) + tuple(shape[dim + 1:-1])
        self.count = self.block * ranks
        for other in self.others:
            self.count = self.count * other

    def own(self, rank):
        """How many of dimension `dim` a rank has."""
        return max(0, min(self.total - rank * self.block, self.block))

    def is_plain(self):
        """Whether the matrix is the tensor as it lies: no other order, no rows added."""
        return self.dim == 0 and self.total == self.block * self.ranks

    def flat(self, tensor, size):
        """[..., size of dim, ..., K] as a matrix, with rows of zeros up to `size` of dimension `dim`."""
        moved = tensor.movedim(self.dim, 0)
        if moved.shape[0] < size:
            moved = torch.cat([moved, moved.new_zeros((size - moved.shape[0], *moved.shape[1:]))])
        return moved.flatten(0, -2)

    def unflat(self, matrix, size):
        """The other way, without gaps; rows from `size` of dimension `dim` on are left out."""
        others = math.prod(self.others)
        sizes = matrix.shape[0] // others if others else size, *self.others, matrix.shape[-1]
        shaped = matrix.reshape(sizes)[:size].movedim(0, self.dim)
        return shaped.contiguous()

    def shape(self, size, columns):
        """The shape of a tensor with so many of dimension `dim`."""
        return (*self.others[:self.dim], size, *self.others[self.dim:], columns)

    def gathered_like(self, x, is_kept):
        """Room for the gathered rows, where they are kept; else a tensor without elements."""
        return x.new_empty(self.shape(self.total, x.shape[-1]) if is_kept else (0,))


def row_dim(tensor, dim, op):
    """`dim` counted from the front. Raises ValueError where it is no dimension of rows."""
    leading = tensor.dim() - 1
    found = dim + tensor.dim() if dim < 0 else dim
    if not 0 <= found < leading:
        raise ValueError(f"{op}: dim is {dim} of x {list(tensor.shape)}; ranks share one of its leading "
                         f"dimensions, 0 to {leading - 1}")
    return found
