"""Calls on GPU tensors: every rank enqueues its part of the plan on its current stream, and waits for nothing.

What went wrong in an earlier call the next one raises, in a capture too: the library knows it by a word of the host's
memory, so nobody asks for it here.
"""

import collections
import dataclasses
import pathlib
import socket
from typing import Any, Dict, Tuple

import torch

import stretto

from . import _records, _rooms
from ._calls import TYPES
from ._refusals import NotServed
from .report import UNALIGNED, ask_for_bad_ids, count_bad_ids, count_copy

SERVED = "sm_90"
ALIGNMENT = 16  # bytes, of every tensor's begin
# Of these one operation serves any number of rows; of others each number has its own.
SERVING = ("ag-gemm", "ag-gemm-bias", "gemm-rs", "gemm-ar")
FEWEST_ROWS = 256
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
NOT_IN_GRAPHS = "a first call with so many rows makes a plan, which no CUDA graph can: call it once before"
MOST_MET = 4096  # numbers of rows that are remembered
MOST_PLANS = 8  # of an operator that differs in rows alone, but for rooms: making one takes seconds
ANY_ROWS = ",rows=bucket"  # at the end of a schedule that serves any number


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
        self._context = None
        # What a call is but for its tensors and rows, and "bucket" or "fixed" -> the most rows -> Operation, or why
        # there is none.
        self._operations = {}
        self._names = {}  # the same -> the operator
        self._bad_ids = {}  # as they were read last
        ask_for_bad_ids(self)
        self._served = {}  # the same but for "bucket" or "fixed" -> a call without tensors
        self._covered = {}  # the same -> rows up to which no operation is made of rows of its own
        self._met = set()  # the same, and numbers of rows that operations for any number have served
        self._may_change = False
        self._nowhere = None  # why there is no context
        self._told = None

    def run(self, call, dtype, targets):
        operation = self._operation(call, call.rows, dtype)
        if not call.fill or operation.max_rows == call.rows:
            return self._enqueue(operation, call, targets)
        made = self._enqueue(operation, _rooms.in_room(call, operation.max_rows, call.owners(self._group.ranks)), {})
        return {name: made[name][:rows] for name, (rows, _) in call.outputs.items()}

    def _enqueue(self, operation, call, targets):
        # Who calls a graph may name its sizes in any order.
        rows = operation.max_rows if operation.rows == "fixed" else call.rows
        made = {name: _room(call, name, targets.get(name)) for name in call.outputs}
        given = {name: _aligned(call, name, tensor.detach()) for name, tensor in call.inputs.items()}
        operation.run({**given, **made}, num_rows=rows, stream=torch.cuda.current_stream(call.device))
        self._told = Told(call.op, operation, rows, {name: one.data_ptr() for name, one in given.items()},
                          tuple(made), self._may_change)
        return made

    def told(self):
        """The last run, once; None: it is told already."""
        told, self._told = self._told, None
        return told

    def finish(self):
        """Collective. Waits for all runs; raises RuntimeError that names a wait which did not end in time."""
        errors = []
        for operation in self._made():
            try:
                operation.finish()
            except RuntimeError as error:  # all are finished, or the next call waits for ranks
                errors.append(error)
        if errors:
            raise errors[0]

    def learn(self, left_ms):
        """Collective. How many plans another time would measure; `left_ms` says how long it may take from now on."""
        return sum(operation.learn(left_ms()) for operation in self._made())

    def errors(self):
        """What went wrong in runs, as far as this process knows, one text an operation."""
        return [what for what in (operation.error() for operation in self._made()) if what]

    def _made(self):
        """All operations, in the order in which all ranks made them. Another thread may be making one."""
        return [one for by_rows in list(self._operations.values()) for one in list(by_rows.values())
                if not isinstance(one, str)]

    @property
    def workspace_bytes(self):
        if self._context is None:
            return 0
        if self._group.options.workspace_grows or self._group.options.workspace_bytes:
            return self._context.workspace_bytes
        return sum(operation.workspace_bytes for operation in self._made())

    def bad_ids(self):
        """By operator, of all runs that have ended. A capture must not read what GPUs count, and what failed cannot
        be read: then as they were.
        """
        if self._names and not self.is_captured():
            counts = collections.Counter()
            try:
                for key, by_rows in list(self._operations.items()):
                    for one in list(by_rows.values()):
                        counts[self._names[key]] += 0 if isinstance(one, str) else one.bad_ids()
                self._bad_ids = counts
            except RuntimeError:
                pass
        return self._bad_ids

    def close(self):
        for op, count in self.bad_ids().items():
            count_bad_ids(op, count)
        self._names, self._bad_ids = {}, {}
        _records.forget()  # calls know operations
        if self._context is not None:
            self._context.close()
        self._context, self._told = None, None
        self._operations, self._served, self._covered = {}, {}, {}

    def served(self):
        """Calls without tensors, one for each kind of those that came, in the order in which they came on all ranks."""
        return list(self._served.values())

    def num_operations(self):
        return len(self._made())

    def is_captured(self):
        return torch.cuda.is_current_stream_capturing()

    def ahead(self, call, rows, is_bucket):
        """Makes what calls of so many rows, numbers of them, take. False: they are not served, or not by one operation
        where it `is_bucket`.
        """
        for one in rows:
            if not is_bucket:  # they come again
                self._met.add((*_key(call, TYPES[call.dtype]), one))
            try:
                operation = self._operation(call, one, TYPES[call.dtype], is_bucket)
            except NotServed:
                return False
            if operation.rows == "bucket":
                operation.prepare(one)
        return True

    def cover(self, call, rows):
        """From now on calls of up to so many rows take the operations that are there, or go in parts."""
        key = _key(call, TYPES[call.dtype])
        self._covered[key] = max(rows, self._covered.get(key, 0))

    def _operation(self, call, rows, dtype, is_bucket=False):
        is_captured = torch.cuda.is_current_stream_capturing()
        known, self._may_change = None, False
        if call.graph_name in SERVING:
            known = self._known(call, room_of_bucket(rows), dtype, "bucket", is_captured)
            if not is_bucket and not isinstance(known, str):
                known = self._of_exactly(call, rows, dtype, known, is_captured)
        if known is None or (isinstance(known, str) and not is_bucket):
            known = self._known(call, rows, dtype, "fixed", is_captured)
        if isinstance(known, str):
            raise NotServed(known)
        if is_captured:
            _require_capturable(known, rows if known.rows == "bucket" else known.max_rows)
        return known

    def _known(self, call, room, dtype, kind, is_captured):
        """The Operation for so many rows, or for more where rows can be added; or why there is none. One is made where
        it has not been tried.
        """
        key = _key(call, dtype)
        by_rows = self._by_rows(call, (*key, kind))
        is_covered = room <= self._covered.get(key, 0)
        is_full = kind == "fixed" and (is_covered or len(by_rows) >= MOST_PLANS)
        if call.fill and room not in by_rows and (is_full or is_captured):
            room, is_full = _rooms.room_of(room, call.owners(self._group.ranks)), False
        if room not in by_rows:
            if is_full:
                if is_covered:
                    return f"no plan was prepared for exactly {room} rows"
                return f"there are plans for {MOST_PLANS} numbers of rows, and each takes seconds to make"
            if is_captured:
                return NOT_IN_GRAPHS
            by_rows[room] = self._make(call, room, dtype, kind)
            if call.op != "run_graph":  # of whose sizes any may be rows
                self._served.setdefault(key, call.without_tensors())
        return by_rows[room]

    def _by_rows(self, call, key):
        """The operations of a kind, or why there are none, by their most rows."""
        self._names[key] = call.op
        return self._operations.setdefault(key, {})

    def _of_exactly(self, call, rows, dtype, serving, is_captured):
        """An operation of these rows alone, once they come again, where "auto" has another schedule for exactly so many
        than for any number: cuBLAS beside copies, say. All ranks meet the same rows in the same order.
        """
        key = _key(call, dtype)
        by_rows = self._by_rows(call, (*key, "fixed"))
        if rows not in by_rows:
            if (rows <= FEWEST_ROWS or is_captured or self._group.options.schedule != "auto" or
                    rows <= self._covered.get(key, 0) or len(by_rows) >= MOST_PLANS):
                return serving
            if (*key, rows) not in self._met:
                if len(self._met) >= MOST_MET:
                    self._met.clear()
                self._met.add((*key, rows))
                self._may_change = True
                return serving
            by_rows[rows] = self._other_than(serving, call, rows, dtype)
        return serving if isinstance(by_rows[rows], str) else by_rows[rows]

    def _other_than(self, serving, call, rows, dtype):
        """Or why there is none."""
        made = self._make(call, rows, dtype, "fixed")
        if isinstance(made, str):
            return made
        schedule = made.schedule()
        serving.prepare(rows)
        if schedule == serving.schedule(rows).removesuffix(ANY_ROWS):
            made.close()
            return "its schedule serves any number of rows"
        if made.runs_per_graph() == 1:
            return made
        made.close()  # no graph would take it
        return self._make(call, rows, dtype, "fixed", schedule.replace("reuse=double", "reuse=ack"))

    def _make(self, call, room, dtype, rows, schedule=None):
        if self._nowhere is None and self._context is None:
            self._context = self._open(call.device.index)
        if self._nowhere is not None:
            raise NotServed(self._nowhere)
        try:
            return stretto.Operation(self._context, call.graph, dtype=dtype, rows=rows,
                                     sizes={**dict(call.sizes), call.sizes[0][0]: room},
                                     schedule=schedule or self._group.options.schedule,
                                     measure_ms=self._group.options.measure_ms)
        except ValueError as error:
            return str(error)

    def _open(self, gpu):
        """By the group's store, whatever launcher there was."""
        group = self._group
        told = {"machine": machine_id(), "host": socket.gethostname(),
                "sm": "sm_%d%d" % torch.cuda.get_device_capability(gpu)}
        stories = group.meeting.agree("context", told, may_differ=told)
        machines, others = {one["machine"] for one in stories}, {one["sm"] for one in stories} - {SERVED}
        if others:
            self._nowhere = (f"there are GPUs of {' and '.join(sorted(others))}, and Stretto takes {SERVED} "
                             "(Hopper)")
            return None
        if len(machines) > 1:
            hosts = sorted({one["host"] for one in stories})
            self._nowhere = (f"ranks are on {len(machines)} machines ({', '.join(hosts[:3])}); all must be "
                             "on one")
            return None

        def exchange(mine):
            group.meeting.begin()
            group.meeting.say("exchange", mine)
            return [group.meeting.hear(rank, "exchange", "context") for rank in range(group.ranks)]

        try:
            context = stretto.Context(group.options.timeout_s, rank=group.rank, ranks=group.ranks, gpu=gpu,
                                      exchange=exchange, workspace_bytes=group.options.workspace_bytes,
                                      workspace_grows=group.options.workspace_grows,
                                      free_sms=group.options.free_sms,
                                      orders_streams=group.options.orders_streams)
            group.meeting.agree("context", {})  # so that all have heard what is forgotten
        except BaseException:
            group.meeting.begin()
            raise
        finally:
            group.meeting.forget()  # it has the job's secret, which the store need not keep
        return context


def room_of_bucket(rows):
    """The most rows of the operation for any number of rows that serves so many."""
    return max(FEWEST_ROWS, 1 << (rows - 1).bit_length())


def _key(call, dtype):
    return call.graph, call.sizes[1:], dtype


def machine_id():
    """What ranks of one machine have alike, in containers too, and others have not, whatever hosts are called."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()


def _require_capturable(operation, rows):
    try:
        runs = operation.runs_per_graph(rows)
    except ValueError:  # there is no plan for so many rows yet
        raise NotServed(NOT_IN_GRAPHS) from None
    if runs != 1:
        raise NotServed(f"its plan's copy engines take turns in {runs} buffers, so that a CUDA graph would have to "
                        f"hold a multiple of {runs} runs; schedules with reuse=ack, or without copy engines, go in any")


def _is_aligned(call, name, tensor):
    """Whether it can be taken where it lies; who has it copied is counted."""
    if tensor.data_ptr() % ALIGNMENT == 0:
        return True
    count_copy(call.op, name, UNALIGNED, tensor.numel() * tensor.element_size())
    return False


def _aligned(call, name, tensor):
    return tensor if _is_aligned(call, name, tensor) else tensor.clone()


def _room(call, name, target):
    """Where an output is written: the caller's, or one that is copied there."""
    shape = call.outputs[name]
    if target is not None and _is_aligned(call, name, target):
        return target.view(shape)
    return torch.empty(shape, dtype=call.type_of(name), device=call.device)
