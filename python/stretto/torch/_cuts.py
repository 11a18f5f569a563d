"""How a tensor of a layer is dealt to the ranks of a group, which checkpoints have whole."""

import dataclasses
from typing import Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import nn

from ._last import of_first
from .groups import rank_of, ranks_of

VECTOR = 8  # elements: 16 bytes of the types that GPUs multiply, of which rows that are sent have whole ones

# Where a rank's part of a size begins, and how much it is
Place = Tuple[int, int]


def shares(size: int, ranks: int, what: str, replicas: int = 1) -> Tuple[Place, ...]:
    """Every rank's place in `size`: the r-th of blocks of ceil(size / ranks), as torch.chunk() has them, so that the
    last ones may be short, or empty. With replicas so many ranks beside each other have the same. Raises ValueError
    where those cannot be.
    """
    if replicas < 1 or ranks % replicas:
        raise ValueError(f"{what} is dealt to {ranks} ranks, of which {replicas} cannot have the same part: they do "
                         "not divide the ranks")
    if size == 0:
        raise ValueError(f"{what} is 0: there is nothing to deal to {ranks} ranks")
    block = -(-size // (ranks // replicas))
    begins = [min(rank // replicas * block, size) for rank in range(ranks)]
    return tuple((begin, min(block, size - begin)) for begin in begins)


@dataclasses.dataclass(frozen=True)
class Cut:
    """Every rank has its part of dimension `dim`. Where parts differ they are filled up with zeros, to one size that
    may be more than any: operators take as many columns of each rank, and zeros add nothing to what they make.

    parts   sizes of what lies behind one another in this dimension of the whole tensor, each of which is dealt by
            itself: a rank has its part of the first, then that of the second
    places  of each part, every rank's. Those of two ranks are the same, or apart
    """

    dim: int
    parts: Tuple[int, ...]
    places: Tuple[Tuple[Place, ...], ...]
    rank: int
    ranks: int
    # What calls ask for, so that they need not count: what each rank has of all parts, what that is filled up to, and
    # whether ranks have the same of each part.
    own_sizes: Tuple[int, ...] = dataclasses.field(init=False)
    room: int = dataclasses.field(init=False)
    are_shared: Tuple[bool, ...] = dataclasses.field(init=False)

    def __post_init__(self):
        sizes = tuple(sum(size for _, size in of_rank) for of_rank in zip(*self.places))
        object.__setattr__(self, "own_sizes", sizes)
        object.__setattr__(self, "room", self._room())
        object.__setattr__(self, "are_shared", tuple(map(_has_replicas, self.places)))

    @classmethod
    def of(cls, tensor: torch.Tensor, group: str, dim: int, what: str, parts: Optional[Sequence[int]] = None,
           replicas: Union[int, Sequence[int]] = 1, places: Optional[Sequence[Sequence[Place]]] = None) -> "Cut":
        """`places` instead of replicas: where ranks have others than blocks. Raises ValueError where parts are not all
        of the tensor, or places not all of a part.
        """
        ranks, size = ranks_of(group), tensor.shape[dim]
        parts = (size,) if parts is None else tuple(parts)
        replicas = (replicas,) * len(parts) if isinstance(replicas, int) else tuple(replicas)
        if sum(parts) != size:
            raise ValueError(f"{what} is {size}, and its parts {', '.join(map(str, parts))} are {sum(parts)}")
        if len(replicas) != len(parts):
            raise ValueError(f"{what} has {len(parts)} parts, and replicas are of {len(replicas)}")
        if places is None:
            named = what if len(parts) == 1 else f"a part of {what}"
            places = [shares(part, ranks, named, same) for part, same in zip(parts, replicas)]
        elif len(places) != len(parts) or not all(
                _are_all_of(part, of_part, ranks) for part, of_part in zip(parts, places)):
            raise ValueError(f"{what} is {' and '.join(map(str, parts))}: there is a (begin, size) in each part for "
                             f"each of {ranks} ranks, and together they are all of it, those of two ranks the same or "
                             f"apart: {places}")
        return cls(dim, parts, tuple(map(tuple, places)), rank_of(group), ranks)

    def _room(self):
        most = max(self.own_sizes)
        return most if min(self.own_sizes) == most else self._unlike(sum(self.parts), in_vectors(most))

    def _unlike(self, whole, room):
        """A room of another size than the whole, so that loading tells a rank's part from what a checkpoint has."""
        return room + VECTOR if room == whole and min(self.own_sizes) < sum(self.parts) else room

    @property
    def sizes(self) -> Tuple[int, ...]:
        """What this rank has of each part."""
        return tuple(of_part[self.rank][1] for of_part in self.places)

    @property
    def own_size(self) -> int:
        return self.own_sizes[self.rank]

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part of a whole tensor: a view of it, where it is but one. Autograd has no part in it: two
        threads that took parts of one parameter could wait for each other in PyTorch for ever.
        """
        first, own, whole = 0, [], whole.detach()
        for part, of_part in zip(self.parts, self.places):
            begin, size = of_part[self.rank]
            own.append(whole.narrow(self.dim, first + begin, size))
            first += part
        return filled(own[0] if len(own) == 1 else torch.cat(own, self.dim), self.dim, self.room)

    def whole(self, by_rank: Sequence[torch.Tensor]) -> torch.Tensor:
        """The whole tensor, of every rank's part."""
        pieces, begins = [], [0] * self.ranks
        for of_part in self.places:
            found = {}
            for rank, (begin, size) in enumerate(of_part):
                if size:
                    found[begin] = by_rank[rank].narrow(self.dim, begins[rank], size)
                begins[rank] += size
            pieces += [found[begin] for begin in sorted(found)]
        return torch.cat(pieces, self.dim)

    def whole_shape(self, own: Sequence[int]) -> Tuple[int, ...]:
        """The shape of the whole tensor, of whose part the shape is `own`."""
        return (*own[:self.dim], sum(self.parts), *own[self.dim + 1:])

    def square_sum(self, own: torch.Tensor) -> torch.Tensor:
        """A rank's term of the sum of all squares of the whole tensor, in fp32."""
        own = own.narrow(self.dim, 0, self.own_size)
        return sum(one.float().square().sum() / of_part.count(of_part[self.rank])
                   for one, of_part in zip(own.split(self.sizes, self.dim), self.places))

    def with_summed_gradient(self, parameter: torch.Tensor, group: str) -> torch.Tensor:
        """The parameter, where ranks that have the same part use it on data of their own: its gradient is the sum of
        theirs, the same on all of them. Its backward is collective over the group, where anything has replicas.
        """
        if not (torch.is_grad_enabled() and parameter.requires_grad) or not any(self.are_shared):
            return parameter
        places, own, total = [], 0, 0  # (begin of the rank's own, of all ranks', size)
        for part, of_part, is_shared in zip(self.parts, self.places, self.are_shared):
            begin, size = of_part[self.rank]
            if is_shared:
                places.append((own, total + begin, size))
                total += part
            own += size
        return _Summed.apply(parameter, group, self.dim, total, tuple(places))


def _are_all_of(part, of_part, ranks):
    at = 0
    for begin, size in sorted({place for place in of_part if place[1] > 0}):
        if begin != at:
            return False
        at += size
    return at == part and len(of_part) == ranks and all(size >= 0 for _, size in of_part)


def in_vectors(size: int) -> int:
    return -(-size // VECTOR) * VECTOR


def _has_replicas(of_part):
    with_any = [place for place in of_part if place[1] > 0]
    return len(set(with_any)) < len(with_any)


def filled(tensor: torch.Tensor, dim: int, room: int) -> torch.Tensor:
    """With zeros behind it, up to a size of `room`."""
    missing = room - tensor.shape[dim]
    if missing == 0:
        return tensor
    dim = dim + tensor.dim() if dim < 0 else dim
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1 - dim) + (0, missing))


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
        return of_first("a weight that ranks share", gradient), None, None, None, None


def sum_gradients(module: nn.Module, group: str) -> None:
    """In place. Parameters of a module that every rank has whole, and uses on data of its own, have the sum of all
    ranks' gradients. Their names stay.
    """
    if ranks_of(group) > 1:
        names = [name for name, one in module._parameters.items() if one is not None]
        module.__class__ = _summing(type(module), group, names)


def _summing(kind, group, names):
    """A class like a module's, whose parameters of these names are with_summed_gradient()."""
    def shared(name):
        def parameter(self):
            own = self._parameters[name]
            if own is None:
                return own
            size, ranks = len(own), ranks_of(group)
            return Cut(0, (size,), (((0, size),) * ranks,), 0, ranks).with_summed_gradient(own, group)
        return property(parameter)

    def reduce(self, _):  # nobody finds the class by its name
        return _made_again, (kind, group, names), self.__dict__

    members = {"__module__": kind.__module__, "__reduce_ex__": reduce, **{name: shared(name) for name in names}}
    return type(kind.__name__, (kind,), members)


def _made_again(kind, group, names):
    made = _summing(kind, group, names)
    return made.__new__(made)


def in_memory_of_its_own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without gaps, which keeps nothing else of the tensor's memory alive."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
