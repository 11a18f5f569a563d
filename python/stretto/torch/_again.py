"""Calls that came before, again: eager ones on GPUs, by their shapes.

What such a call is checked for the first of its kind was checked for, by the dispatcher's kernel. What is left is to
look it up, to give the library addresses, and to enqueue; nothing is asked of a GPU. Autograd is told of a call as a
whole, with the dispatcher's own gradients.
"""

import ctypes
from typing import Dict, Tuple

import torch
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

from .._library import CCallTensor, library
from . import groups
from ._gradients import Kept
from ._kernels import are_behind, joined
from .report import count_served

# What a tensor of a call is where it is no input of the graph: one that lies right behind the tensor before it, of
# which the input is made; one that is added to the result.
BEHIND, ADDED = -1, -2
ALIGNED = 15
MOST = 4096  # calls that differ; more of them begin anew
DEVICE = "cuda"
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WORDS = ctypes.sizeof(CCallTensor) // 8
_ADDRESS = CCallTensor.address.offset // 8
_records: Dict[Tuple, "Record"] = {}
_is_capturing = torch.cuda.is_current_stream_capturing
_is_autocast = torch._C._is_any_autocast_enabled
_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack


def names_of(op, more, count):
    """The graph's inputs, in the order of the tensors given, of which there are so many; or BEHIND, or ADDED."""
    if op == "all_gather_matmul":
        behind = [BEHIND] * (more - 1)
        return ["a", "b", *behind, *(["c", *behind] if count > 1 + more else [])]
    if op == "mlp":
        ups = more[-1]
        return ["x", *["wg", "wu"][:ups], *(["c0", "c1"][:ups] if count > 2 + ups else []), "wd"]
    return {"matmul_reduce_scatter": ["a", "b", ADDED], "matmul_all_reduce": ["a", "b", ADDED],
            "matmul_all_reduce_add_rms_norm": ["a", "b", "r", "w"],
            "moe": ["x", "ids", "weights", "wg", "wu", "wd"]}[op][:count]


class Record:
    """One kind of call: the library's arguments, in which only addresses are missing."""

    def __init__(self, op, given, group, more, last, names, tensors, inputs, made):
        self.op, self.more = op, more
        self.given = given  # the caller's word for the group, whose id() nothing else has meanwhile
        self.seat, self.process_group = group.seat, group.process_group
        self.operation = last.operation
        self.rows, self.array = last.operation._given({**inputs, **dict(zip(last.outputs, made))}, last.rows)
        self.words = (ctypes.c_uint64 * (_WORDS * len(self.array))).from_buffer(self.array)
        at = {name: _WORDS * index + _ADDRESS for index, name in enumerate([*inputs, *last.outputs])}
        self.inputs = [(one.dtype, at.get(name, name), one.numel() * one.element_size())
                       for name, one in zip(names, tensors)]
        self.added = names.index(ADDED) if ADDED in names else None
        self.outputs = [(at[name], tuple(one.shape), one.stride()) for name, one in zip(last.outputs, made)]
        self.dtype, self.device, self.index = made[0].dtype, made[0].device, made[0].get_device()
        self.count, self.handle = len(self.array), last.operation._handle.value
        self.at, self.enqueue = ctypes.addressof(self.array), library().enqueue

    def is_usable(self):
        return self.operation._handle is not None and (
            self.process_group is None or self.process_group in c10d._world.pg_map)

    def call(self, tensors, outs):
        """The results, of which autograd knows; None: this takes the long way."""
        if _modes() or _is_autocast() or _transform() is not None or _is_capturing():
            return None
        is_graded, words, index = torch.is_grad_enabled(), self.words, self.index
        needs_gradient, bits, end = False, 0, 0
        for one, (dtype, word, num_bytes) in zip(tensors, self.inputs):
            if (type(one) not in _PLAIN or one.dtype is not dtype or one.get_device() != index or
                    not one.is_contiguous()):
                return None
            address = one.data_ptr()
            if word >= 0:
                words[word] = address
                bits |= address
            elif word == BEHIND and address != end:
                return None
            end = address + num_bytes
            if is_graded and one.requires_grad:
                needs_gradient = True
        if bits & ALIGNED or (outs is not None and (needs_gradient or not self._are_targets(tensors, outs))):
            return None
        return _Graded.apply(self, *tensors) if needs_gradient else self.run(tensors, outs)

    def run(self, tensors, outs=None):
        """Inputs' addresses are there."""
        made = outs or [torch.empty_strided(shape, strides, dtype=self.dtype, device=self.device)
                        for _, shape, strides in self.outputs]
        for one, (word, _, _) in zip(made, self.outputs):
            self.words[word] = one.data_ptr()
        status = self.enqueue(self.handle, self.rows, self.at, self.count,
                              torch._C._cuda_getCurrentRawStream(self.index))
        if status != 0:
            library().fail(status)
        if self.added is not None:
            made[0].add_(tensors[self.added])
        count_served(self.op)
        return made

    def _are_targets(self, tensors, outs):
        """Whether results can be written there; where they cannot, the long way says why."""
        taken = [(one.data_ptr(), num_bytes) for one, (_, _, num_bytes) in zip(tensors, self.inputs)]
        for one, (_, shape, _) in zip(outs, self.outputs):
            if (type(one) not in _PLAIN or one.dtype is not self.dtype or one.get_device() != self.index or
                    one.shape != shape or not one.is_contiguous() or one.requires_grad):
                return False
            begin, num_bytes = one.data_ptr(), one.numel() * one.element_size()
            if begin & ALIGNED or any(begin < at + size and at < begin + num_bytes for at, size in taken):
                return False
            taken.append((begin, num_bytes))
        return True


class _Graded(torch.autograd.Function):
    """A record's run, and the gradients of the dispatcher's operator, which takes the host some times as long."""

    @staticmethod
    def forward(ctx, record, *tensors):
        made = record.run(tensors)
        ctx.kept, saved = Kept.of(record.op, record.seat, record.more, tensors, made)
        ctx.save_for_backward(*saved)
        return tuple(made)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *ctx.kept.gradients(ctx.saved_tensors, ctx.needs_input_grad[1:], gradients)


def _inputs(names, tensors):
    """By the graph's names, those that lie behind one another as one; None: they do not lie so."""
    parts = {}
    for name, one in zip(names, tensors):
        if name == BEHIND:
            parts[next(reversed(parts))].append(one)
        elif name != ADDED:
            parts[name] = [one]
    if not all(are_behind(many) for many in parts.values()):
        return None
    return {name: joined(many) for name, many in parts.items()}


def _of(group):
    """What a group is known by here: a mesh gives new objects for its dimensions at every call."""
    return group.get_group() if type(group) is DeviceMesh and group.ndim == 1 else group


def _key(op, group, more, tensors):
    return (op, id(group), more, tensors[0].dtype, *[one.shape for one in tensors])


def again(op, group, more, tensors, outs=None):
    """The results of a call that came before with such tensors; None: go the long way.

    more  what else there is to know: a number of weights, an eps, ...
    outs  where results are written, if the caller says so
    """
    if torch.compiler.is_compiling() or type(tensors[0]) not in _PLAIN:
        return None
    try:
        record = _records.get(_key(op, _of(group), more, tensors))
    except (AttributeError, TypeError):  # no tensors, or of no known shape: the long way says so
        return None
    if record is None:
        return None
    if not record.is_usable():
        _records.clear()
        return None
    return record.call(tensors, outs)


def learn(op, group, more, tensors, made):
    """What the call that has just been made needs to come again, if it can."""
    if (torch.compiler.is_compiling() or tensors[0].device.type != DEVICE or _modes() or _is_autocast() or
            _transform() is not None or _is_capturing()):
        return
    known = groups.find(groups.seat(group))
    engine = known.engines.get(DEVICE)
    last = engine and engine.told()
    if last is None or last.op != op:
        return
    names = names_of(op, more, len(tensors))
    if any(type(one) not in _PLAIN or not one.is_contiguous() for one in tensors):
        return
    inputs = _inputs(names, tensors)
    if inputs is None or {name: one.data_ptr() for name, one in inputs.items()} != last.addresses:
        return  # it was given copies
    if len(_records) >= MOST:
        _records.clear()
    group = _of(group)
    _records[_key(op, group, more, tensors)] = Record(op, group, known, more, last, names, tensors, inputs, made)
