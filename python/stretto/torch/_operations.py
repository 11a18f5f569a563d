"""Which operation of the library serves a call on GPUs: one for any number of rows, or one for exactly so many."""

import torch

import stretto

from . import _rooms
from ._calls import TYPES
from ._gpu_context import open_context
from ._refusals import NotServed

# Of these one operation serves any number of rows; of others each number has its own.
SERVING = ("ag-gemm", "ag-gemm-bias", "gemm-rs", "gemm-ar")
FEWEST_ROWS = 256
# From so many on rows that come again may have an operation of their own. Fewer are served well by what serves any
# number, and "auto" errs more: a layer of 512 rows was 17 % slower by what it took for exactly these. But for the kernel
# of few rows, up to so many, which is up to a quarter faster and cannot leave out rows.
FEWEST_EXACT, MOST_FEW, BY_FEW_ROWS = 1024, 512, "gemm=few-rows"
NOT_IN_GRAPHS = "a first call with so many rows makes a plan, which no CUDA graph can: call it once before"
MOST_MET = 4096  # numbers of rows that are remembered
MOST_PLANS = 8  # of an operator that differs in rows alone, but for rooms: making one takes seconds
MOST_FEW_PLANS = 24  # of few rows besides: servers have graphs of so many sizes of a batch
ANY_ROWS = ",rows=bucket"  # at the end of a schedule that serves any number


def room_of_bucket(rows):
    """The most rows of the operation for any number of rows that serves so many."""
    return max(FEWEST_ROWS, 1 << (rows - 1).bit_length())


def _key(call, dtype):
    return call.graph, call.sizes[1:], dtype


def _require_capturable(operation, rows):
    try:
        runs = operation.runs_per_graph(rows)
    except ValueError:  # there is no plan for so many rows yet
        raise NotServed(NOT_IN_GRAPHS) from None
    if runs != 1:
        raise NotServed(f"its plan's copy engines take turns in {runs} buffers, so that a CUDA graph would have to "
                        f"hold a multiple of {runs} runs; schedules with reuse=ack, or without copy engines, go in any")


class Operations:
    """Those of a group, which all ranks make in the same order."""

    def __init__(self, group):
        self._group = group
        self.context = None
        # What a call is but for its tensors and rows, and "bucket" or "fixed" -> the most rows -> Operation, or why
        # there is none.
        self.kinds = {}
        self.names = {}  # the same -> the operator
        self._served = {}  # the same but for "bucket" or "fixed" -> a call without tensors
        self._covered = {}  # the same -> rows up to which no operation is made of rows of its own
        self._met = set()  # the same, and numbers of rows that operations for any number have served
        self._nowhere = None  # why there is no context
        self.may_change = False  # the next call like the last may take another operation

    def made(self):
        """All of them, in the order in which all ranks made them. Another thread may be making one."""
        return [one for by_rows in list(self.kinds.values()) for one in list(by_rows.values())
                if not isinstance(one, str)]

    def served(self):
        """Calls without tensors, one for each kind of those that came, in the order in which they came on all ranks."""
        return list(self._served.values())

    def close(self):
        if self.context is not None:
            self.context.close()
        self.context = None
        self.kinds, self.names, self._served, self._covered = {}, {}, {}, {}
        self._met.clear()

    def ahead(self, call, rows, is_bucket):
        """Makes what calls of so many rows, numbers of them, take. False: they are not served, or not by one operation
        where it `is_bucket`.
        """
        for one in rows:
            if not is_bucket:  # they come again
                self._met.add((*_key(call, TYPES[call.dtype]), one))
            try:
                operation = self.of(call, one, TYPES[call.dtype], is_bucket)
            except NotServed:
                return False
            if operation.rows == "bucket":
                operation.prepare(one)
        return True

    def cover(self, call, rows):
        """From now on calls of up to so many rows take the operations that are there, or go in parts."""
        key = _key(call, TYPES[call.dtype])
        self._covered[key] = max(rows, self._covered.get(key, 0))

    def of(self, call, rows, dtype, is_bucket=False):
        """The one that serves so many rows; where it `is_bucket`, any number up to them. Raises NotServed."""
        is_captured = torch.cuda.is_current_stream_capturing()
        known, self.may_change = None, False
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
            made = self._make(call, room, dtype, kind)
            by_rows[room] = self._for_graphs(made, call, room) if kind == "fixed" else made
            if call.op != "run_graph":  # of whose sizes any may be rows
                self._served.setdefault(key, call.without_tensors())
        return by_rows[room]

    def _by_rows(self, call, key):
        """The operations of a kind, or why there are none, by their most rows."""
        self.names[key] = call.op
        return self.kinds.setdefault(key, {})

    def _of_exactly(self, call, rows, dtype, serving, is_captured):
        """An operation of these rows alone, once they come again, where "auto" has another schedule for exactly so many
        than for any number: cuBLAS beside copies, say. All ranks meet the same rows in the same order.
        """
        key = _key(call, dtype)
        by_rows = self._by_rows(call, (*key, "fixed"))
        if rows not in by_rows:
            if (MOST_FEW < rows < FEWEST_EXACT or is_captured or self._group.options.schedule != "auto" or
                    rows <= self._covered.get(key, 0) or self._is_full(by_rows, rows)):
                return serving
            if (*key, rows) not in self._met:
                if len(self._met) >= MOST_MET:
                    self._met.clear()
                self._met.add((*key, rows))
                self.may_change = True
                return serving
            by_rows[rows] = self._other_than(serving, call, rows, dtype)
        return serving if isinstance(by_rows[rows], str) else by_rows[rows]

    @staticmethod
    def _is_full(by_rows, rows):
        few = sum(one <= MOST_FEW for one in by_rows)
        return few >= MOST_FEW_PLANS if rows <= MOST_FEW else len(by_rows) - few >= MOST_PLANS

    def _other_than(self, serving, call, rows, dtype):
        """Or why there is none."""
        made = self._for_graphs(self._make(call, rows, dtype, "fixed"), call, rows)
        if isinstance(made, str):
            return made
        serving.prepare(rows)
        schedule = made.schedule()
        is_better = rows >= FEWEST_EXACT or BY_FEW_ROWS in schedule
        if is_better and schedule != serving.schedule(rows).removesuffix(ANY_ROWS):
            return made
        made.close()
        return "its schedule serves any number of rows, or is not surely faster"

    def _for_graphs(self, made, call, room):
        """The operation, or the same where one run of it makes no whole graph, with buffers that runs do not take in
        turn.
        """
        if isinstance(made, str) or self._group.options.schedule != "auto" or made.runs_per_graph(made.max_rows) == 1:
            return made
        schedule = made.schedule()
        if "reuse=double" not in schedule:
            return made
        other = self._make(call, room, made.dtype, "fixed", schedule.replace("reuse=double", "reuse=ack"))
        if isinstance(other, str):
            return made
        made.close()
        return other

    def _make(self, call, room, dtype, rows, schedule=None):
        if self._nowhere is not None:
            raise NotServed(self._nowhere)
        if self.context is None:
            try:
                self.context = open_context(self._group, call.device.index)
            except NotServed as error:
                self._nowhere = str(error)
                raise
        try:
            return stretto.Operation(self.context, call.graph, dtype=dtype, rows=rows,
                                     sizes={**dict(call.sizes), call.sizes[0][0]: room},
                                     schedule=schedule or self._group.options.schedule,
                                     measure_ms=self._group.options.measure_ms)
        except ValueError as error:
            return str(error)
