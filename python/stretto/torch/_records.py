"""Calls that came before, by their shapes: what the library is given for them, but for addresses.

What such a call is checked for the first of its kind was checked for, by its kernel. What is left is to look it up,
to give the library addresses, and to enqueue; nothing is asked of a GPU, and other ranks are not either.
"""

import ctypes
import functools
import os
from typing import Dict, Tuple

import torch
from torch.distributed import distributed_c10d as c10d

from .._library import CCallTensor, library
from . import groups
from ._parts import are_behind, joined
from .report import count_served

# What a tensor of a call is where it is no input of the graph: one that lies right behind the tensor before it, of
# which the input is made; one that is added to the result.
BEHIND, ADDED = -1, -2
ALIGNED = 15
MOST = 4096  # calls that differ; more of them begin anew
DEVICE = "cuda"
PLAIN = (torch.Tensor, torch.nn.Parameter)
_WORDS = ctypes.sizeof(CCallTensor) // 8
_ADDRESS = CCallTensor.address.offset // 8
_records: Dict[Tuple, "Record"] = {}
_is_capturing = torch.cuda.is_current_stream_capturing


def forget():
    _records.clear()


os.register_at_fork(after_in_child=forget)  # a fork has no ranks of its own: the kernel says so


def is_live(process_group):
    """Whether a ProcessGroup is there; None is none, of ranks that are threads."""
    return process_group is None or process_group in c10d._world.pg_map


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

    def __init__(self, op, group, more, last, names, tensors, inputs, made):
        self.op, self.more, self.seat, self.process_group = op, more, group.seat, group.process_group
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

    def takes(self, tensors, outs, is_graded=False):
        """Notes where the inputs lie. None: they are not as the call's were; else whether one needs a gradient."""
        words, index = self.words, self.index
        needs_gradient, bits, end = False, 0, 0
        for one, (dtype, word, num_bytes) in zip(tensors, self.inputs):
            if (type(one) not in PLAIN or one.dtype is not dtype or one.get_device() != index or
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
        return needs_gradient

    def run(self, tensors, outs=None):
        """The results, of inputs that takes() has noted."""
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
        """Whether results can be written there; where they cannot, the kernel says why."""
        taken = [(one.data_ptr(), num_bytes) for one, (_, _, num_bytes) in zip(tensors, self.inputs)]
        for one, (_, shape, _) in zip(outs, self.outputs):
            if (type(one) not in PLAIN or one.dtype is not self.dtype or one.get_device() != self.index or
                    one.shape != shape or not one.is_contiguous() or one.requires_grad):
                return False
            begin, num_bytes = one.data_ptr(), one.numel() * one.element_size()
            if begin & ALIGNED or any(begin < at + size and at < begin + num_bytes for at, size in taken):
                return False
            taken.append((begin, num_bytes))
        return True


def _key(op, seat, more, tensors):
    return (op, seat, more, tensors[0].dtype, *[one.shape for one in tensors])


def look(op, seat, more, tensors):
    """The record of such calls in a group of this seat or name; None where there is none, or in captures.

    more  what else there is to know of a call: a number of weights, an eps, ...
    """
    try:
        record = _records.get(_key(op, seat, more, tensors))
    except (AttributeError, TypeError):  # no tensors, or of no known shape: the kernel says so
        return None
    if record is None or _is_capturing():
        return None
    if record.operation._handle is None or not is_live(record.process_group):
        forget()
        return None
    return record


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


def _learn(op, seat, more, tensors, made):
    """What the call that has just been made needs to come again, if it can."""
    group = groups.find(seat)
    if group.options.compare:
        return
    engine = group.engines.get(DEVICE)
    last = engine and engine.told()
    if last is None or last.op != op or _is_capturing():
        return
    if any(type(one) not in PLAIN or not one.is_contiguous() for one in tensors):
        return
    names = names_of(op, more, len(tensors))
    inputs = _inputs(names, tensors)
    if inputs is None or {name: one.data_ptr() for name, one in inputs.items()} != last.addresses:
        return  # it was given copies
    if len(_records) >= MOST:
        forget()
    _records[_key(op, seat, more, tensors)] = Record(op, group, more, last, names, tensors, inputs, made)


# The parts of a kernel's arguments: its tensors, `more`, the group's seat, whether it is a call that may come again,
# and `outs`.

def _of_gather(x, weights, biases, seat, dim=0, rows=None, keep_gathered=False, out=None, **_):
    return (x, *weights, *biases), len(weights), seat, dim == 0 and rows is None and not keep_gathered, _outs(out)


def _of_product(x, weight, bias, seat, dim=0, out=None, **_):
    return (x, weight) if bias is None else (x, weight, bias), None, seat, dim == 0, _outs(out)


def _of_norm(x, weight, residual, norm_weight, eps, seat, out=None, total=None):
    return (x, weight, residual, norm_weight), eps, seat, True, None if out is None else (out, total)


def _of_mlp(x, ups, up_biases, down, activation, seat, sequence_parallel=False, dim=0, out=None):
    more = activation, sequence_parallel, len(ups)
    return (x, *ups, *up_biases, down), more, seat, dim == 0, _outs(out)


def _of_moe(x, ids, weights, gate, up, down, seat, expert_parallel=False, out=None):
    return (x, ids, weights, gate, up, down), expert_parallel, seat, True, _outs(out)


def _outs(out):
    return None if out is None else (out,)


PARTS = {"all_gather_matmul": _of_gather, "matmul_reduce_scatter": _of_product, "matmul_all_reduce": _of_product,
         "matmul_all_reduce_add_rms_norm": _of_norm, "mlp": _of_mlp, "moe": _of_moe}


def _results(op, x, made):
    """As the kernel returns them."""
    if op == "all_gather_matmul":
        return made[0], x.new_empty((0,))  # no gathered rows
    return tuple(made) if op == "matmul_all_reduce_add_rms_norm" else made[0]


def seen(kernel):
    """A kernel, but for calls that came before."""
    op = kernel.__name__
    parts = PARTS[op]

    @functools.wraps(kernel)
    def call(*arguments, **named):
        tensors, more, seat, may_come_again, outs = parts(*arguments, **named)
        if not may_come_again:
            return kernel(*arguments, **named)
        record = look(op, seat, more, tensors)
        if record is not None and record.takes(tensors, outs) is not None:
            return _results(op, tensors[0], record.run(tensors, outs))
        made = kernel(*arguments, **named)
        if tensors[0].device.type == DEVICE:
            _learn(op, seat, more, tensors, made if isinstance(made, tuple) else (made,))
        return made
    return call
