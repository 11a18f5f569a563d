"""How a tensor of a layer is dealt to the ranks of a group, which checkpoints have whole."""

import dataclasses
from typing import Optional, Sequence, Tuple, Union

import torch
from torch import nn

from .groups import rank_of, ranks_of


def share(size: int, group: str, what: str, replicas: int = 1) -> int:
    """What one rank has of `size`, where so many ranks have the same. Raises ValueError where the ranks do not divide
    it: a layer that is cast would have other shares in its new type, since operators deal columns that do not divide in
    blocks of 16 bytes.
    """
    ranks = ranks_of(group)
    if replicas < 1 or ranks % replicas:
        raise ValueError(f"{what} is dealt to {ranks} ranks, of which {replicas} cannot have the same part: they do "
                         "not divide the ranks")
    shares = ranks // replicas
    if size % shares or size == 0:
        below = size // shares * shares
        near = f"{below} or {below + shares}" if below else f"{shares}"
        raise ValueError(f"{what} is {size} and does not divide by {shares} ranks: layers have shares of one size; "
                         f"take {near}")
    return size // shares


@dataclasses.dataclass(frozen=True)
class Cut:
    """Every rank has its part of dimension `dim`.

    parts     sizes of what lies behind one another in this dimension of the whole tensor, each of which is dealt by
              itself: a rank has its part of the first, then that of the second
    replicas  of each: so many ranks beside each other have the same
    """

    dim: int
    parts: Tuple[int, ...]
    replicas: Tuple[int, ...]
    rank: int
    ranks: int

    @classmethod
    def of(cls, tensor: torch.Tensor, group: str, dim: int, what: str, parts: Optional[Sequence[int]] = None,
           replicas: Union[int, Sequence[int]] = 1) -> "Cut":
        """Raises ValueError where ranks do not divide a part, or parts are not all of it."""
        size = tensor.shape[dim]
        parts = (size,) if parts is None else tuple(parts)
        replicas = (replicas,) * len(parts) if isinstance(replicas, int) else tuple(replicas)
        if sum(parts) != size:
            raise ValueError(f"{what} is {size}, and its parts {', '.join(map(str, parts))} are {sum(parts)}")
        if len(replicas) != len(parts):
            raise ValueError(f"{what} has {len(parts)} parts, and replicas are of {len(replicas)}")
        for part, same in zip(parts, replicas):
            share(part, group, what if len(parts) == 1 else f"a part of {what}", same)
        return cls(dim, parts, replicas, rank_of(group), ranks_of(group))

    @property
    def sizes(self) -> Tuple[int, ...]:
        """What a rank has of each part."""
        return tuple(part * same // self.ranks for part, same in zip(self.parts, self.replicas))

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part of a whole tensor: a view of it, where there is but one part. Autograd has no part in it: two
        threads that took parts of one parameter could wait for each other in PyTorch for ever.
        """
        begin, own, whole = 0, [], whole.detach()
        for part, same, size in zip(self.parts, self.replicas, self.sizes):
            own.append(whole.narrow(self.dim, begin + self.rank // same * size, size))
            begin += part
        return own[0] if len(own) == 1 else torch.cat(own, self.dim)

    def whole(self, by_rank: Sequence[torch.Tensor]) -> torch.Tensor:
        """The whole tensor, of every rank's part."""
        pieces = [one.split(self.sizes, self.dim) for one in by_rank]
        return torch.cat([pieces[rank][part] for part, same in enumerate(self.replicas)
                          for rank in range(0, self.ranks, same)], self.dim)

    def whole_shape(self, own: Sequence[int]) -> Tuple[int, ...]:
        """The shape of the whole tensor, of whose part the shape is `own`."""
        return (*own[:self.dim], sum(self.parts), *own[self.dim + 1:])

    def square_sum(self, own: torch.Tensor) -> torch.Tensor:
        """A rank's term of the sum of all squares of the whole tensor, in fp32."""
        return sum(one.float().square().sum() / same
                   for one, same in zip(own.split(self.sizes, self.dim), self.replicas))

    def with_summed_gradient(self, parameter: torch.Tensor, group: str) -> torch.Tensor:
        """The parameter, where ranks that have the same part use it on data of their own: its gradient is the sum of
        theirs, the same on all of them. Its backward is collective over the group, where anything has replicas.
        """
        if max(self.replicas) == 1 or not (torch.is_grad_enabled() and parameter.requires_grad):
            return parameter
        places, own, total = [], 0, 0  # (begin of the rank's own, of all ranks', size)
        for part, same, size in zip(self.parts, self.replicas, self.sizes):
            if same > 1:
                places.append((own, total + self.rank // same * size, size))
                total += part
            own += size
        return _Summed.apply(parameter, group, self.dim, total, tuple(places))


class _Summed(torch.autograd.Function):
    """One all-reduce of the whole tensor, in which a rank has zeros where it has no part: no other group is needed."""

    @staticmethod
    def forward(ctx, parameter, group, dim, total, places):
        ctx.group, ctx.dim, ctx.total, ctx.places = group, dim, total, places
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx, gradient):
        shape = list(gradient.shape)
        shape[ctx.dim] = ctx.total
        terms = gradient.new_zeros(shape)
        for own, place, size in ctx.places:
            terms.narrow(ctx.dim, place, size).copy_(gradient.narrow(ctx.dim, own, size))
        sums, gradient = torch.ops.stretto.all_reduce(terms, ctx.group), gradient.clone()
        for own, place, size in ctx.places:
            gradient.narrow(ctx.dim, own, size).copy_(sums.narrow(ctx.dim, place, size))
        return gradient, None, None, None, None


def sum_gradients(module: nn.Module, group: str) -> None:
    """In place. Parameters of a module that every rank has whole, and uses on data of its own, have the sum of all
    ranks' gradients. Their names stay.
    """
    ranks, kind = ranks_of(group), type(module)
    if ranks == 1:
        return

    def shared(name):
        def parameter(self):
            own = self._parameters[name]
            return own if own is None else Cut(0, (len(own),), (ranks,), 0, ranks).with_summed_gradient(own, group)
        return property(parameter)

    names = [name for name, one in module._parameters.items() if one is not None]
    module.__class__ = type(kind.__name__, (kind,), {name: shared(name) for name in names})


def in_memory_of_its_own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without gaps, which keeps nothing else of the tensor's memory alive."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
