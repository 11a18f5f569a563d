"""What modules of others do, where their names do not say all of it."""

import copy
import dataclasses
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._names import Names

ROWS, HIDDEN, WIDTH = 2, 8, 64  # of what is tried
CLOSE = 1e-4


@dataclasses.dataclass(frozen=True)
class Tried:
    """mixes_columns  what comes of own columns of the first products is not the own part of what comes of all
    is_swiglu      it is down(silu(gate(x)) * up(x)), and nothing before or behind that; nor has anybody a hook on it
    """

    mixes_columns: bool = False
    is_swiglu: bool = False


class _StandIn(nn.Module):
    """Of a linear: keeps what it is given, and gives what it is told to."""

    def __init__(self, linear, made):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.made, self.given = made.new_empty(0), None, made, None

    def forward(self, x):
        self.given = x
        return self.made


def has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or
                module._backward_pre_hooks or "forward" in module.__dict__)


def why_no_plain_linear(linear: nn.Module) -> Optional[str]:
    """What it does beside x @ weight.T + bias, which a layer made of its weight would leave out; None: nothing."""
    kind, weight = type(linear), linear.weight
    if isinstance(weight, UninitializedTensorMixin):
        return "its weight has no shape yet"
    if kind.forward is not nn.Linear.forward:
        return f"it is a {kind.__name__}, whose forward() is not nn.Linear's"
    if has_hooks(linear):
        return "it has hooks or a forward() of its own, which would be left out"
    if is_parametrized(linear):
        return "its parameters are computed of others (torch.nn.utils.parametrize)"
    if is_traceable_wrapper_subclass(weight):
        return f"its weight is a {type(weight).__name__}, and no plain tensor"
    return None if weight.is_floating_point() else f"its weight is {str(weight.dtype).replace('torch.', '')}"


def tried(mlp: nn.Module, names: Names) -> Optional[Tried]:
    """By stand-ins for its linears. None: its forward() takes other arguments than x, or linears that are more than
    functions; so nothing is known.
    """
    generator = torch.Generator().manual_seed(1)

    def normal(*sizes):
        return torch.randn(1, ROWS, *sizes, generator=generator, device="cpu", dtype=torch.float32)

    x, down, parts = normal(HIDDEN), normal(HIDDEN), [normal(WIDTH), normal(WIDTH)]
    try:
        with torch.no_grad():
            result, inputs, hidden = _run(mlp, names, x, parts, down)
            of_half = _run(mlp, names, x, [part[..., :WIDTH // 2] for part in parts], down)[2]
            with torch.random.fork_rng(devices=[]):
                in_training, _, of_training = _run(mlp, names, x, parts, down, True)
            is_plain = (result is down and in_training is down and all(one is x for one in inputs) and
                        not has_hooks(mlp))
            right = F.silu(parts[0]) * parts[1]
            return Tried(not _are_close(of_half, hidden[..., :WIDTH // 2]),
                         is_plain and _are_close(hidden, right) and _are_close(of_training, right))
    except Exception:  # whatever others' code makes of that
        return None


def _run(mlp, names, x, parts, down, is_training=False):
    """The result, what linears of columns were given, and what that of rows was."""
    columns = [torch.cat(parts, -1)] if names.is_fused else parts
    stand_ins = {name: _StandIn(getattr(mlp, name), made)
                 for name, made in zip((*names.columns, names.rows), (*columns, down))}
    others = {name: copy.deepcopy(one) for name, one in mlp._modules.items() if name not in stand_ins}
    alike = copy.copy(mlp)
    alike.__dict__ = {**mlp.__dict__, "_modules": {**others, **stand_ins}}
    alike.train(is_training)
    result = alike.forward(x)
    return result, [stand_ins[name].given for name in names.columns], stand_ins[names.rows].given


def _are_close(one, other):
    return one.shape == other.shape and bool((one - other).abs().max() <= CLOSE)
