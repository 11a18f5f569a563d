"""Whether Stretto or PyTorch serves a call."""

from . import _engine
from ._calls import TYPES
from .report import IN_PARTS, count_copies, count_fallback, count_served


def refusal(call):
    """Why a call is not served, as far as it shows without a plan; None: it may be."""
    if call.device.type not in _engine.ENGINES:
        return f"tensors are on {call.device.type}, and Stretto takes {' and '.join(_engine.ENGINES)}"
    taken = _engine.ENGINES[call.device.type].TYPES
    if TYPES.get(call.dtype) not in taken:
        return (f"tensors are {str(call.dtype).replace('torch.', '')}, and on {call.device.type} Stretto takes "
                f"{', '.join(taken)}")
    if call.refusal:
        return call.refusal
    empty = [name for name, size in call.sizes if size == 0]
    return f"{empty[0]} is 0" if empty else None


def run(call, group, fallback, reason=None, targets=None, is_in_parts=False, given=None):
    """The call's outputs in their order: Stretto's, else those of fallback(), which is counted. Raises NotServed
    where fallback is None: the caller has another.

    reason       why Stretto is not asked, by the caller's own choice; None: it is
    targets      output -> the tensor without gaps that it is written to, where there is one
    given        what the caller gave for inputs of the call, by their names: who is another tensor there is a copy, and
                 counted
    is_in_parts  fallback() is made of other operators of Stretto's, which say for themselves what they do not
                 serve
    """
    is_chosen = reason is not None
    reason = reason or refusal(call)
    with group.meeting.turn(call.op):
        _engine.agree(call, group, reason)
        if reason is None:
            try:
                outputs = _engine.run(call, group, TYPES[call.dtype], targets or {})
                count_served(call.op)
                count_copies(call.op, given or {}, call.inputs)
                return tuple(outputs[name] for name in call.outputs)
            except _engine.NotServed as error:
                reason = str(error)
    if fallback is None:
        raise _engine.NotServed(reason)
    if not group.options.fallback and not is_chosen and not is_in_parts:
        raise ValueError(f"{call.op} is not served for group {group.name!r}: {reason}")
    count_fallback(call.op, f"{IN_PARTS}{reason}" if is_in_parts else reason)
    return fallback()
