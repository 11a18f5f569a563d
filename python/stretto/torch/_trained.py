"""An MLP that is trained, in eager calls: its operators one after the other, of which autograd knows as one. Nodes of
their own, and what PyTorch's dispatcher does for each, take the host longer than the operators.
"""

from types import SimpleNamespace

import torch
import torch.nn.functional as F

from . import _again, _records, _shapes
from ._activations import activate, activate_back
from ._gradients import (Gradient, back_all_gather_matmul, back_column_matmul, back_matmul_all_reduce,
                         back_matmul_reduce_scatter)
from ._parts import are_behind, joined
from .groups import ranks_of, seat

_good = set()  # what calls were checked for


def _first(group, x, ups, biases, is_shared, dim):
    """Of each weight what comes: parts of one tensor, or tensors of their own where the weights lie apart."""
    sizes = [len(up) for up in ups]
    if is_shared:
        made = _again.again("all_gather_matmul", group, len(ups), (x, *ups, *biases)) if dim == 0 else None
        if made is None:
            made = torch.ops.stretto.all_gather_matmul(x, ups, biases, seat(group), dim, None, False)
        return made[0].split_with_sizes(sizes, -1)
    if len(ups) == 1 or not are_behind(ups):
        return [F.linear(x, up, bias) for up, bias in zip(ups, biases or [None] * len(ups))]
    return F.linear(x, joined(ups), joined(biases) if biases else None).split_with_sizes(sizes, -1)


def _second(group, hidden, down, is_shared, dim):
    op = "matmul_reduce_scatter" if is_shared else "matmul_all_reduce"
    made = _again.again(op, group, None, (hidden, down)) if dim == 0 or not is_shared else None
    if made is not None:
        return made[0]
    return getattr(torch.ops.stretto, op)(hidden, down, None, seat(group), *([dim] if is_shared else []))


def _back_mlp(ctx, dy):
    x, down, hidden, *rest = ctx.saved_tensors
    ups, biases, made = rest[:ctx.count], rest[ctx.count:-ctx.count], rest[-ctx.count:]
    needs_x, needs_down = ctx.needs_input_grad[1:3]
    needs_ups, needs_biases = ctx.needs_input_grad[3:3 + ctx.count], ctx.needs_input_grad[3 + ctx.count:]
    needs_hidden = needs_x or any(ctx.needs_input_grad[3:])
    second = SimpleNamespace(group=ctx.group, dim=ctx.dim, saved_tensors=(hidden, down),
                             needs_input_grad=(needs_hidden, needs_down, False))
    back = back_matmul_reduce_scatter if ctx.is_shared else back_matmul_all_reduce
    dhidden, ddown = back(second, dy)[:2]
    if not needs_hidden:
        return None, None, ddown, *[None] * (len(ups) + len(biases))
    dmade = activate_back(ctx.activation, made, dhidden)
    first = SimpleNamespace(group=ctx.group, dim=ctx.dim, weights=ctx.count, is_kept=False,
                            needs_input_grad=(needs_x, needs_ups, needs_biases))
    joint = dmade[0] if len(dmade) == 1 else torch.cat(dmade, -1)
    if ctx.is_shared:
        first.saved_tensors = (x, None, *ups, *biases)
        dx, dups, dbiases, *_ = back_all_gather_matmul(first, joint, None)
    else:
        first.saved_tensors = (x, *ups, *biases)
        dx, dups, dbiases, *_ = back_column_matmul(first, joint)
    return None, dx, ddown, *dups, *dbiases


_GRADIENT = Gradient(None, _back_mlp, op="mlp")


class _Mlp(torch.autograd.Function):
    """Keeps what stands between the products."""

    @staticmethod
    def forward(ctx, how, x, down, *more):
        group, ctx.group, ctx.activation, ctx.is_shared, ctx.dim, ctx.count = how
        ups, biases = more[:ctx.count], more[ctx.count:]
        made = _first(group, x, ups, biases, ctx.is_shared, ctx.dim)
        hidden = activate(ctx.activation, made)
        ctx.save_for_backward(x, down, hidden, *ups, *biases, *made)
        return _second(group, hidden, down, ctx.is_shared, ctx.dim)

    @staticmethod
    def backward(ctx, dy):
        return _GRADIENT.backward(ctx, dy)


def _require_good(x, ups, biases, down, activation, name, is_shared, dim):
    """Nothing is asked of a call whose tensors are like those of one before."""
    key = (activation, name, is_shared, dim, len(ups),
           *[(one.shape, one.dtype, one.device) for one in (x, *ups, *biases, down)])
    if key in _good:
        return
    _shapes.mlp_rows(x, ups, biases, down, activation, is_shared, dim, ranks_of(name))
    if len(_good) >= _records.MOST:
        _good.clear()
    _good.add(key)


def mlp(x, ups, biases, down, activation, group, is_shared, dim):
    """The result; None: go the long way."""
    tensors = x, down, *ups, *biases
    if not _again.is_eager() or any([type(one) not in _records.PLAIN for one in tensors]):
        return None
    name = seat(group)
    _require_good(x, ups, biases, down, activation, name, is_shared, dim)
    return _Mlp.apply((group, name, activation, is_shared, dim, len(ups)), *tensors)
