"""Experts whose weights are stacks of matrices, dealt to the ranks of a group: every expert cut over them."""

from typing import Sequence, Tuple

import torch

from . import experts as functional
from ._cuts import Cut, filled, in_vectors
from ._dealt import Dealt
from .groups import GroupLike


class StackCut(Cut):
    """Of a stack of matrices; of several whose rows lie below one another in each, what a rank has is a stack for each
    of them, [parts, experts, own, columns], since operators take stacks without gaps.
    """

    def _room(self):
        most = max(size for of_part in self.places for _, size in of_part)
        return self._unlike(self.parts[0], in_vectors(most))  # experts' rows are whole vectors

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        stacks = [filled(one.narrow(self.dim, *of_part[self.rank]), self.dim, self.room)
                  for one, of_part in zip(whole.detach().split(self.parts, self.dim), self.places)]
        return stacks[0] if len(stacks) == 1 else torch.stack(stacks)

    def whole(self, by_rank: Sequence[torch.Tensor]) -> torch.Tensor:
        parts = [[one] if len(self.parts) == 1 else one.unbind() for one in by_rank]
        return torch.cat([parts[rank][number].narrow(self.dim, 0, size) for number, of_part in enumerate(self.places)
                          for rank, (_, size) in enumerate(of_part)], self.dim)

    def whole_shape(self, own: Sequence[int]) -> Tuple[int, ...]:
        return super().whole_shape(own[-3:])

    def square_sum(self, own: torch.Tensor) -> torch.Tensor:
        return own.float().square().sum()


class ParallelExperts(Dealt):
    """down(silu(gate(x)) * up(x)) of each token's experts, weighed and added up, in one plan of Stretto's with an
    all-reduce. Every rank has all tokens, and its part of each expert's width.

    forward(x, ids, weights): x [tokens, hidden]; ids [tokens, k], the experts that a token has chosen, and weights
    [tokens, k], the same on all ranks -> [tokens, hidden]: as the experts of Hugging Face's transformers are called.

    gate_up_proj  this rank's rows of gate, and those of up, [2, experts, width / R, hidden]; of a checkpoint
                  [experts, 2 * width, hidden]
    down_proj     [experts, hidden, width / R]

    Where R does not divide the width, the last ranks have less, and zeros behind it. It is made of whole stacks by
    from_stacks().
    """

    kind_of_cut = StackCut

    @classmethod
    def from_stacks(cls, gate_up: torch.Tensor, down: torch.Tensor, group: GroupLike = None) -> "ParallelExperts":
        """Of [experts, 2 * width, hidden], each gate's rows above up's, and [experts, hidden, width]; they are the same
        on all ranks.
        """
        made = cls(group)
        experts, hidden, width = down.shape
        if tuple(gate_up.shape) != (experts, 2 * width, hidden):
            raise ValueError(f"gate and up are {list(gate_up.shape)}; [{experts}, {2 * width}, {hidden}] goes with "
                             f"down {list(down.shape)}")
        made.num_experts, made.hidden, made.width = experts, hidden, width
        made._take("gate_up_proj", gate_up, 1, "the width of experts", (width, width))
        made._take("down_proj", down, 2, "the width of experts")
        return made

    def extra_repr(self):
        return f"{self.num_experts} x ({self.hidden}, {self.width}), ranks={self.ranks}"

    def forward(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj.unbind()
        return functional.moe(x, ids, weights, gate, up, self.down_proj, self.group, sequence_parallel=False)
