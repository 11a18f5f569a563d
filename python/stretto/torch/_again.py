"""Eager calls that came before, without PyTorch's dispatcher, which takes the host longer than the call.

Autograd is told of a call as a whole, with the dispatcher's own gradients.
"""

import torch
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad
from torch.distributed.device_mesh import DeviceMesh

from . import _records, groups
from ._gradients import Kept
from ._parts import products

_is_autocast = torch._C._is_any_autocast_enabled
_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack
_is_grad_enabled = torch.is_grad_enabled
_NONE = (None, None)


class _Graded(torch.autograd.Function):
    """Results of a record's run, and the gradients of the dispatcher's operator, which takes the host some times as
    long.
    """

    @staticmethod
    def forward(ctx, made, plan, *tensors):
        ctx.kept, saved = plan
        both = tensors + made
        ctx.save_for_backward(*[both[place] for place in saved])
        return made

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.kept.gradients(ctx.saved_tensors, ctx.needs_input_grad[2:], gradients)


def _graded(record, more, tensors):
    """The results of a record's run, of which autograd knows."""
    if record.adds(tensors):
        with torch.no_grad():
            made = record.run(tensors)
    else:
        made = record.run(tensors)
    if made is None:
        return None
    plan = record.plans.get(len(tensors))
    if plan is None:
        # Each tensor of a later call is one of its own, even where this call's are not.
        stands = [one.detach() for one in tensors + made]
        kept, saved = Kept.of(record.op, record.seat, more, stands[:len(tensors)], stands[len(tensors):])
        both = [id(one) for one in stands]
        plan = record.plans[len(tensors)] = kept, [both.index(id(one)) for one in saved]
    return _Graded.apply(made, plan, *tensors)


class _Columns(torch.autograd.Function):
    """PyTorch's product, whose gradient is a sum over ranks: a column_matmul() as _Graded is of others."""

    @staticmethod
    def forward(ctx, seat, count, x, *others):
        weights, biases = others[:count], others[count:]
        made = products(x, weights, biases)
        ctx.kept, saved = Kept.of("column_matmul", seat, count, (x, *others), [made])
        ctx.save_for_backward(*saved)
        return made

    @staticmethod
    def backward(ctx, gradient):
        return None, None, *ctx.kept.gradients(ctx.saved_tensors, ctx.needs_input_grad[2:], (gradient,))


def is_eager():
    """Whether what a call does is all that PyTorch is to do: no tracing, mode, autocast, transform or tangent."""
    return not (torch.compiler.is_compiling() or _modes() or _is_autocast() or _transform() is not None or
                forward_ad._current_level >= 0)


def is_differentiated():
    """Whether torch.func is about to take gradients of what is called."""
    if torch.compiler.is_compiling():
        return False
    return any(one.key() == TransformType.Grad for one in get_interpreter_stack() or ())


def columns(group, x, weights, biases):
    """The result of a column_matmul() that autograd knows of; None: go the long way, which says what is wrong."""
    if not is_eager() or not torch.is_grad_enabled() or len(biases) not in (0, len(weights)):
        return None
    tensors = (x, *weights, *biases)
    if any(type(one) not in _records.PLAIN or one.dtype is not x.dtype or one.device != x.device for one in tensors):
        return None
    if not weights or x.dim() < 2 or not x.is_floating_point():
        return None
    if any(one.dim() != 2 or one.shape[1] != x.shape[-1] for one in weights) or any(
            one.shape != weight.shape[:1] for one, weight in zip(biases, weights)):
        return None
    return _Columns.apply(groups.seat(group), len(weights), *tensors)


def _known(key, group, first):
    """The record of such calls of a group, which is as the caller says it; None: there is none."""
    if not isinstance(first, torch.Tensor) or first.device.type != _records.DEVICE:
        return None
    op, _, more = key
    record = _records.look(op, groups.find(groups.seat(group)).seat, more)
    if record is not None:
        if len(_records.quick) >= _records.MOST:
            _records.quick.clear()
        _records.quick[key] = group, record
    return record


def again(op, group, more, tensors, outs=None):
    """The results of a call that came before with such tensors; None: go the long way. `more` as of look()."""
    if not is_eager():
        return None
    if type(group) is DeviceMesh and group.ndim == 1:  # which gives new objects for its dimensions at every call
        group = group.get_group()
    key = op, id(group), more
    _, record = _records.quick.get(key, _NONE)
    if record is None:
        record = _known(key, group, tensors[0])
        if record is None:
            return None
    elif not record.is_live():
        _records.quick.pop(key, None)
        return None
    if _is_grad_enabled() and _any_needs_gradient(tensors):
        return _graded(record, more, tensors) if outs is None else None
    if outs is not None and _any_needs_gradient(outs):
        return None
    return record.run(tensors, outs)


def _any_needs_gradient(tensors):
    try:
        for one in tensors:
            if one.requires_grad:
                return True
    except AttributeError:  # what is no tensor has none, and no call had it
        pass
    return False
