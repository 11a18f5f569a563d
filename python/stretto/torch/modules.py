"""Linear layers and MLPs whose weights are dealt to the ranks of a group."""

from typing import Optional, Sequence, Union

import torch
from torch import nn

from . import functional as st
from ._cuts import Place, filled
from ._dealt import Dealt
from ._forwards import why_no_plain_linear
from ._parts import lay_behind
from ._whole import gathered_columns
from .groups import GroupLike
from .report import UNEVEN, count_copy


class _Sharded(Dealt):
    """New weights are parts of what nn.Linear begins with, which ranks of one seed have alike."""

    def __init__(self, in_features, out_features, group, sequence_parallel, dim):
        super().__init__(group)
        self.in_features, self.out_features = in_features, out_features
        self.sequence_parallel, self.dim = sequence_parallel, dim

    def extra_repr(self):
        shared = f"sequence_parallel, dim={self.dim}" if self.sequence_parallel else "whole rows"
        return (f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, "
                f"ranks={self.ranks}, {shared}")

    @classmethod
    def _of(cls, linear, group, sequence_parallel, dim, *how):
        reason = why_no_plain_linear(linear)
        if reason:
            raise ValueError(f"{cls.__name__}.from_linear() takes a plain nn.Linear: {reason}")
        made = cls.__new__(cls)
        _Sharded.__init__(made, linear.in_features, linear.out_features, group, sequence_parallel, dim)
        made._deal(linear, *how)
        return made


class ColumnParallelLinear(_Sharded):
    """y = x @ weight.T + bias, each rank its own columns of y.

    in_features, out_features   of the whole layer; weight is [out_features / R, in_features]
    sequence_parallel           x is dealt to the ranks by dimension `dim`, and gathered; else every rank
                                has all of x, and only its gradient is communicated
    keep_gathered               keep the gathered x for the gradient of weight, rather than gather it again
    gather_output               every rank gets all columns: PyTorch gathers them behind the product. Their gradient is
                                expected to be the same on all ranks

    [..., in_features] -> [..., out_features / R]. Where R does not divide out_features, rank r has the r-th block of
    ceil(out_features / R) columns, the last ones fewer or none; weight has as many rows on each, zeros behind its own.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, group: GroupLike = None, *,
                 sequence_parallel: bool = True, dim: int = 0, keep_gathered: bool = False,
                 gather_output: bool = False, device=None, dtype=None):
        super().__init__(in_features, out_features, group, sequence_parallel, dim)
        self.keep_gathered, self.gather_output = keep_gathered, gather_output
        self._deal(nn.Linear(in_features, out_features, bias, device, dtype))

    @classmethod
    def from_linear(cls, linear: nn.Linear, group: GroupLike = None, *, sequence_parallel: bool = True,
                    dim: int = 0, keep_gathered: bool = False, gather_output: bool = False,
                    parts: Optional[Sequence[int]] = None, replicas: Union[int, Sequence[int]] = 1,
                    places: Optional[Sequence[Sequence[Place]]] = None) -> "ColumnParallelLinear":
        """Of a linear that has all columns, the same on all ranks: this rank's.

        parts     sizes of what several linears have below one another in one weight, such as (F, F) of a gate and an up
                  projection: each is dealt by itself, so that the result has this rank's part of the first, then of the
                  second
        replicas  so many ranks beside each other have the same columns, of each part where there are several: of heads
                  of keys that are fewer than ranks. Their weights' gradients are summed over these ranks in backward
        places    instead, of each part every rank's (begin, size) in it, where those are others than blocks. Two ranks
                  have the same, or nothing in common
        """
        made = cls._of(linear, group, sequence_parallel, dim, parts, replicas, places)
        made.keep_gathered, made.gather_output = keep_gathered, gather_output
        return made

    def _deal(self, linear, *how):
        self._take("weight", linear.weight, 0, "out_features", *how)
        self._take("bias", linear.bias, 0, "out_features", *how)

    def forward(self, x: torch.Tensor, rows: Optional[int] = None) -> torch.Tensor:
        weight, bias, cut = self._own("weight"), self._own("bias"), self.cuts["weight"]
        if self.sequence_parallel:
            y = st.all_gather_matmul(x, weight, bias, self.group, dim=self.dim, rows=rows,
                                     keep_gathered=self.keep_gathered)
        else:
            y = st.column_matmul(x, weight, bias, self.group)
        if self.gather_output:
            return gathered_columns(y, self.group, cut.own_sizes)
        return y if y.shape[-1] == cut.own_size else y.narrow(-1, 0, cut.own_size)


class RowParallelLinear(_Sharded):
    """y = the sum over ranks of x @ weight.T, + bias, where each rank has its own columns of x.

    in_features, out_features   of the whole layer; weight is [out_features, in_features / R]
    sequence_parallel           y is dealt to the ranks by dimension `dim`; else every rank gets all of it

    [..., in_features / R] -> [..., out_features]. Where R does not divide in_features, rank r has the r-th block of
    ceil(in_features / R) columns of x, the last ones fewer or none: x is filled up there with zeros, a copy, which
    stands in report().
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, group: GroupLike = None, *,
                 sequence_parallel: bool = True, dim: int = 0, device=None, dtype=None):
        super().__init__(in_features, out_features, group, sequence_parallel, dim)
        self._deal(nn.Linear(in_features, out_features, bias, device, dtype))

    @classmethod
    def from_linear(cls, linear: nn.Linear, group: GroupLike = None, *, sequence_parallel: bool = True,
                    dim: int = 0, places: Optional[Sequence[Place]] = None) -> "RowParallelLinear":
        """Of a linear that has all columns, the same on all ranks: this rank's.

        places  every rank's (begin, size) in these columns, where those are others than blocks
        """
        return cls._of(linear, group, sequence_parallel, dim, None, 1, None if places is None else [places])

    def _deal(self, linear, *how):
        self._take("weight", linear.weight, 1, "in_features", *how)
        self._take("bias", linear.bias, None, "out_features")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cut = self.cuts["weight"]
        if x.shape[-1] == cut.own_size < cut.room:
            x = filled(x, -1, cut.room)
            if not torch.compiler.is_compiling():  # compiled code may write it where it is made
                op = "matmul_reduce_scatter" if self.sequence_parallel else "matmul_all_reduce"
                count_copy(op, "a", UNEVEN, x.numel() * x.element_size())
        if self.sequence_parallel:
            return st.matmul_reduce_scatter(x, self.weight, self.bias, self.group, dim=self.dim)
        return st.matmul_all_reduce(x, self.weight, self.bias, self.group)


class ParallelMLP(nn.Module):
    """down(activation(gate(x)) * up(x)), or down(activation(up(x))), in one plan of Stretto's.

    gate, up, down      column-parallel and row-parallel linears, or None for gate; without biases but up's
    activation          "swiglu" with a gate; "gelu" in its tanh form or "silu" without

    [..., hidden] -> [..., hidden]. It is made of whole linears by from_linears(). The weights of gate and up are parts
    of one tensor, so that no call copies them to multiply by both: they are put there when the layer is made, copied,
    moved or cast, and when it has loaded a state.
    """

    def __init__(self, gate: Optional[ColumnParallelLinear], up: ColumnParallelLinear,
                 down: RowParallelLinear, activation: str = "swiglu"):
        super().__init__()
        if down.bias is not None:
            raise ValueError("a bias of down is added to the sum of all ranks: use the linears one by one")
        self.gate_proj, self.up_proj, self.down_proj, self.activation = gate, up, down, activation
        self.register_load_state_dict_post_hook(_lay_together)
        _lay_together(self)

    def _apply(self, *arguments, **named):
        moved = super()._apply(*arguments, **named)
        _lay_together(self)
        return moved

    def __setstate__(self, state):  # of a copy, and of what was saved: each weight has memory of its own then
        super().__setstate__(state)
        _lay_together(self)

    def _ups(self):
        return [one for one in (self.gate_proj, self.up_proj) if one is not None]

    @classmethod
    def from_linears(cls, gate: Optional[nn.Linear], up: nn.Linear, down: nn.Linear,
                     activation: str = "swiglu", group: GroupLike = None, *,
                     sequence_parallel: bool = True, dim: int = 0) -> "ParallelMLP":
        """Of linears that have all columns, the same on all ranks."""
        def column(one):
            return ColumnParallelLinear.from_linear(one, group, sequence_parallel=sequence_parallel, dim=dim)

        return cls(None if gate is None else column(gate), column(up), RowParallelLinear.from_linear(
            down, group, sequence_parallel=sequence_parallel, dim=dim), activation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ups = self._ups()
        biases = None if ups[0].bias is None else [one._own("bias") for one in ups]
        up = self.up_proj
        return st.mlp(x, [one._own("weight") for one in ups], self.down_proj.weight, up.group, up_bias=biases,
                      activation=self.activation, sequence_parallel=up.sequence_parallel, dim=up.dim)


def _lay_together(mlp, _=None):
    for name in ("weight", "bias"):
        parts = [getattr(one, name) for one in mlp._ups()]
        if len(parts) > 1 and all(part is not None for part in parts):
            lay_behind(parts)
