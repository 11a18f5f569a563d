"""Calls that came before, again: eager ones on GPUs without gradients, by their shapes.

What such a call is checked for the first of its kind was checked for, by the dispatcher's kernel. What is left is to
look it up, to give the library addresses, and to enqueue; nothing is asked of a GPU.
"""

import ctypes
from typing import Dict, Tuple

import torch
from torch.distributed import distributed_c10d as c10d

from .._library import CCallTensor, library
from . import groups
from .report import count_served

# Operator -> its graph's inputs, in the order of the tensors given.
INPUTS = {"all_gather_matmul": ("a", "b", "c"), "matmul_reduce_scatter": ("a", "b"), "matmul_all_reduce": ("a", "b"),
          "matmul_all_reduce_add_rms_norm": ("a", "b", "r", "w")}
MLP = {3: ("x", "wg", "wd"), 4: ("x", "wg", "wu", "wd")}
ALIGNED = 15
MOST = 4096  # calls that differ; more of them begin anew
DEVICE = "cuda"
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WORDS = ctypes.sizeof(CCallTensor) // 8
_ADDRESS = CCallTensor.address.offset // 8
_records: Dict[Tuple, "Record"] = {}
_is_capturing = torch.cuda.is_current_stream_capturing
_modes = torch._C._len_torch_dispatch_stack


class Record:
    """One kind of call: the library's arguments, in which only addresses are missing."""

    def __init__(self, given, group, engine, operation, rows, tensors, made):
        self.given = given  # the caller's word for the group, whose id() nothing else has meanwhile
        self.group, self.engine, self.operation = group, engine, operation
        self.shapes = [one.shape for one in made.values()]
        self.rows, self.array = operation._given({**tensors, **made}, rows)
        self.words = (ctypes.c_uint64 * (_WORDS * len(self.array))).from_buffer(self.array)
        self.inputs = [_WORDS * index + _ADDRESS for index in range(len(tensors))]
        self.outputs = [_WORDS * index + _ADDRESS for index in range(len(tensors), len(self.array))]
        self.count, self.handle = len(self.array), operation._handle
        self.run = library().enqueue
        first = next(iter(made.values()))
        self.dtype, self.device, self.index = first.dtype, first.device, first.get_device()

    def is_usable(self):
        if self.operation._handle is None:
            return False
        process_group = self.group.process_group
        return process_group is None or process_group in c10d._world.pg_map


def _key(op, group, more, tensors):
    return (op, id(group), more, tensors[0].dtype, *[one.shape for one in tensors])


def _is_plain(tensors, dtype, index, is_graded=None):
    """Whether nothing but the tensors themselves has to do with a call of an operator."""
    is_graded = torch.is_grad_enabled() if is_graded is None else is_graded
    for one in tensors:
        if (type(one) not in _PLAIN or one.dtype is not dtype or one.get_device() != index or
                not one.is_contiguous() or (is_graded and one.requires_grad)):
            return False
    return not (_modes() or torch._C._is_any_autocast_enabled() or
                torch._C._functorch.peek_interpreter_stack() is not None or _is_capturing())


def again(op, group, more, tensors):
    """The results of a call that came before with such tensors; None: go the long way."""
    if torch.compiler.is_compiling() or type(tensors[0]) not in _PLAIN:
        return None
    record = _records.get(_key(op, group, more, tensors))
    if record is None or not _is_plain(tensors, record.dtype, record.index):
        return None
    if not record.is_usable():
        _records.clear()
        return None
    words, bits = record.words, 0
    for one, at in zip(tensors, record.inputs):
        words[at] = address = one.data_ptr()
        bits |= address
    if bits & ALIGNED:
        return None
    made = [torch.empty(shape, dtype=record.dtype, device=record.device) for shape in record.shapes]
    for one, at in zip(made, record.outputs):
        words[at] = one.data_ptr()
    status = record.run(record.handle, record.rows, record.array, record.count,
                        torch._C._cuda_getCurrentRawStream(record.index))
    if status != 0:
        library().fail(status)
    count_served(op)
    return made


def learn(op, group, more, tensors, made):
    """What the call that has just been made needs to come again, if it can."""
    if (torch.compiler.is_compiling() or tensors[0].device.type != DEVICE or
            not _is_plain(tensors, tensors[0].dtype, tensors[0].get_device())):
        return
    known = groups.find(groups.seat(group))
    engine = known.engines.get(DEVICE)
    last = engine and engine.told()
    if last is None or last.op != op:
        return
    names = MLP[len(tensors)] if op == "mlp" else INPUTS[op][:len(tensors)]
    if [last.addresses.get(name) for name in names] != [one.data_ptr() for one in tensors] or (
            len(names) != len(last.addresses)):
        return  # it was given copies, or more than these
    if len(_records) >= MOST:
        _records.clear()
    _records[_key(op, group, more, tensors)] = Record(
        group, known, engine, last.operation, last.rows, dict(zip(names, tensors)), dict(zip(last.outputs, made)))


def needs_gradient(tensors):
    """Whether PyTorch's autograd alone is to know of a call, which again() is to make."""
    if (torch.compiler.is_compiling() or not torch.is_grad_enabled() or tensors[0].device.type != DEVICE or
            not any(one.requires_grad for one in tensors)):
        return False
    return _is_plain(tensors, tensors[0].dtype, tensors[0].get_device(), False)
