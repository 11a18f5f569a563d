"""Calls on GPU tensors: every rank enqueues its part of the plan on its current stream, and waits for nothing.

What went wrong in an earlier call the next one raises, in a capture too: the library knows it by a word of the host's
memory, so nobody asks for it here.
"""

import collections
import dataclasses
from typing import Any, Dict, Tuple

import torch

from . import _records, _rooms
from ._operations import Operations
from .report import FAR, UNALIGNED, ask_for_bad_ids, count_bad_ids, count_copy

ALIGNMENT = 16  # bytes, of every tensor's begin
REACH = 1 << 40  # bytes from one matrix to the next, by which one map has both


@dataclasses.dataclass
class Told:
    """A run that came to the library, without its tensors."""

    op: str
    operation: Any
    rows: int
    addresses: Dict[str, int]
    outputs: Tuple[str, ...]
    may_change: bool = False  # the next such call may take another operation


class Engine:
    TYPES = ("bf16", "fp16")

    def __init__(self, group):
        self._group = group
        self._operations = Operations(group)
        self._bad_ids = {}  # as they were read last
        ask_for_bad_ids(self)
        self._told = None

    def run(self, call, dtype, targets):
        operation = self._operations.of(call, call.rows, dtype)
        if not call.fill or operation.max_rows == call.rows:
            return self._enqueue(operation, call, targets)
        made = self._enqueue(operation, _rooms.in_room(call, operation.max_rows, call.owners(self._group.ranks)), {})
        return {name: made[name][:rows] for name, (rows, _) in call.outputs.items()}

    def _enqueue(self, operation, call, targets):
        # Who calls a graph may name its sizes in any order.
        rows = operation.max_rows if operation.rows == "fixed" else call.rows
        made = {name: _room(call, name, targets.get(name)) for name in call.outputs}
        given = {name: _aligned(call, name, tensor.detach()) for name, tensor in call.inputs.items()}
        _put_beside(call, given)
        operation.run({**given, **made}, num_rows=rows, stream=torch.cuda.current_stream(call.device))
        self._told = Told(call.op, operation, rows, {name: one.data_ptr() for name, one in given.items()},
                          tuple(made), self._operations.may_change)
        return made

    def told(self):
        """The last run, once; None: it is told already."""
        told, self._told = self._told, None
        return told

    def finish(self):
        """Collective. Waits for all runs; raises RuntimeError that names a wait which did not end in time."""
        errors = []
        for operation in self._operations.made():
            try:
                operation.finish()
            except RuntimeError as error:  # all are finished, or the next call waits for ranks
                errors.append(error)
        if errors:
            raise errors[0]

    def learn(self, left_ms):
        """Collective. How many plans another time would measure; `left_ms` says how long it may take from now on."""
        return sum(operation.learn(left_ms()) for operation in self._operations.made())

    def errors(self):
        """What went wrong in runs, as far as this process knows, one text an operation."""
        return [what for what in (operation.error() for operation in self._operations.made()) if what]

    @property
    def workspace_bytes(self):
        if self._operations.context is None:
            return 0
        if self._group.options.workspace_grows or self._group.options.workspace_bytes:
            return self._operations.context.workspace_bytes
        return sum(operation.workspace_bytes for operation in self._operations.made())

    def bad_ids(self):
        """By operator, of all runs that have ended. A capture must not read what GPUs count, and what failed cannot
        be read: then as they were.
        """
        if self._operations.names and not self.is_captured():
            counts = collections.Counter()
            try:
                for key, by_rows in list(self._operations.kinds.items()):
                    for one in list(by_rows.values()):
                        counts[self._operations.names[key]] += 0 if isinstance(one, str) else one.bad_ids()
                self._bad_ids = counts
            except RuntimeError:
                pass
        return self._bad_ids

    def close(self):
        for op, count in self.bad_ids().items():
            count_bad_ids(op, count)
        self._bad_ids, self._told = {}, None
        _records.forget()  # calls know operations
        self._operations.close()

    def num_operations(self):
        return len(self._operations.made())

    def is_captured(self):
        return torch.cuda.is_current_stream_capturing()

    # What is made ahead of calls: see Operations.

    def served(self):
        return self._operations.served()

    def ahead(self, call, rows, is_bucket):
        return self._operations.ahead(call, rows, is_bucket)

    def cover(self, call, rows):
        self._operations.cover(call, rows)


def _is_aligned(call, name, tensor):
    """Whether it can be taken where it lies; who has it copied is counted."""
    if tensor.data_ptr() % ALIGNMENT == 0:
        return True
    count_copy(call.op, name, UNALIGNED, tensor.numel() * tensor.element_size())
    return False


def _aligned(call, name, tensor):
    return tensor if _is_aligned(call, name, tensor) else tensor.clone()


def _put_beside(call, given):
    """Gates of experts and what they gate are read together. What memory has too far apart is copied, and counted."""
    pair = [name for name in ("wg", "wu") if name in given and given[name].dim() == 3]
    if len(pair) < 2:
        return
    gate, up = (given[name] for name in pair)
    if abs(gate.data_ptr() - up.data_ptr()) < REACH or gate.shape != up.shape:
        return
    for name, copied in zip(pair, torch.stack((gate, up)).unbind()):
        count_copy(call.op, name, FAR, copied.numel() * copied.element_size())
        given[name] = copied


def _room(call, name, target):
    """Where an output is written: the caller's, or one that is copied there."""
    shape = call.outputs[name]
    if target is not None and _is_aligned(call, name, target):
        return target.view(shape)
    return torch.empty(shape, dtype=call.type_of(name), device=call.device)
