"""What plans are, and runs of them on the CPU: needs no GPU."""

import functools
import threading
import weakref
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p, pointer
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._library import (CCallTensor, CPlanRequest, CTensorInfo, dtype_text, library, rank_number,
                       serves, text, whole)
from .operators import Operator, TensorInfo, c_operator, graph_text, info_of, sizes_text
from .tensors import on_cpu

EXPECTED = "tensors has a list for each name, with a tensor of every rank"


class Plan:
    """The program of every rank for an operator, by a schedule or by what auto chose.

    schedule      every coordinate; Operation takes it
    reason        why auto took it, or which point a system's name stands for; else empty
    predicted_us  one run, as the simulation has it: microseconds, not measured
    ranks, dtype, num_rows
    tensors       by name, as rank 0 has them: TensorInfo
    """

    def __init__(self, c_op, schedule, rows, machine):
        request = CPlanRequest(pointer(c_op), text(schedule, "schedule"), serves(rows),
                               None if machine is None else text(machine, "machine"))
        handle = c_void_p()
        library().plan_make(byref(request), byref(handle))
        self._handle = handle
        self._end = weakref.finalize(self, library().plan_close, handle)
        found, reason = c_char_p(), c_char_p()
        library().plan_schedule(handle, byref(found), byref(reason))
        self.schedule, self.reason = found.value.decode(), reason.value.decode()
        self.ranks, self.dtype = c_op.ranks, c_op.dtype.decode()
        count, num_rows = c_int32(), c_int64()
        library().tensor_count(byref(c_op), byref(count))
        library().plan_rows(handle, byref(num_rows))
        self._num_tensors, self.num_rows = count.value, num_rows.value
        self._infos = functools.lru_cache(maxsize=64)(self.tensors_of)
        self.lock = threading.Lock()  # of who asks for bad_ids() of one execute()
        self.tensors = self.tensors_of(0)

    def tensors_of(self, rank: int, num_rows: Optional[int] = None) -> Dict[str, TensorInfo]:
        """What a run of so many rows (default: the plan's) takes of a rank, by name."""
        run = self.num_rows if num_rows is None else whole(num_rows, "num_rows")
        infos = {}
        for index in range(self._num_tensors):
            found = CTensorInfo()
            library().plan_tensor(self._handle, run, rank_number(rank), index, byref(found))
            infos[found.name.decode()] = info_of(found)
        return infos

    @functools.cached_property
    def predicted_us(self) -> float:
        predicted = c_double()
        library().plan_predict(self._handle, byref(predicted))
        return predicted.value

    def check(self) -> List[str]:
        """Proves it free of races and deadlocks: the list of problems, empty when it is proved."""
        count, problems = c_int64(), c_char_p()
        library().plan_check(self._handle, byref(count), byref(problems))
        return problems.value.decode().splitlines() if count.value else []

    @functools.cached_property
    def workspace_bytes(self) -> int:
        """Bytes of every GPU that lie between ranks: an operation's workspace is as large as its largest plan's."""
        found = c_uint64()
        library().plan_workspace(self._handle, byref(found))
        return found.value

    def text(self) -> str:
        """The plan as a file of `stretto check` and others."""
        found = c_char_p()
        library().plan_text(self._handle, byref(found))
        return found.value.decode()

    @functools.cached_property
    def dtypes(self) -> Dict[str, str]:
        """By name, the type of each tensor that a caller gives or gets: ids are i32 (or i64), weights of sums fp32."""
        return {name: info.dtype for name, info in self._infos(0, self.num_rows).items()}

    def execute(self, tensors: Mapping[str, Sequence[Any]],
                num_rows: Optional[int] = None) -> None:
        """One run of `num_rows` rows (default: the plan's) on the CPU, of all ranks.

        tensors  as of emulate(), with the rows that tensors_of(rank, num_rows) says. 0 rows of a plan that serves
                 fewer do nothing
        """
        run = self.num_rows if num_rows is None else whole(num_rows, "num_rows")
        if not isinstance(tensors, Mapping):
            raise ValueError(f"tensors is a {type(tensors).__name__}: {EXPECTED}")
        if run == 0:  # no tensor has such a shape
            library().plan_execute(self._handle, 0, None, 0)
            return
        infos = [self._infos(rank, run) for rank in range(self.ranks)]
        given = []
        for name, by_rank in tensors.items():
            if not isinstance(by_rank, (list, tuple)) or len(by_rank) != self.ranks:
                raise ValueError(f"tensor {name}: a list of {self.ranks} was expected, one a rank")
            for rank, tensor in enumerate(by_rank):
                view = on_cpu(tensor, name)
                if name in infos[rank]:  # else the library says which there are
                    info = infos[rank][name]
                    view.require(name, info.shape, info.dtype, info.is_output)
                given.append(CCallTensor(text(name, "name"), 0, rank, view.address,
                                         view.row_stride))
        library().plan_execute(self._handle, run, (CCallTensor * len(given))(*given), len(given))

    def bad_ids(self) -> int:
        """How many ids of all execute() so far were no expert's and not -1, or no row of their table: nothing is chosen
        there.
        """
        count = c_uint64()
        library().plan_bad_ids(self._handle, byref(count))
        return count.value

    def __repr__(self):
        return f"Plan(schedule={self.schedule!r}, reason={self.reason!r})"


def plan(operator: Operator, *, ranks: int, dtype: Any = "bf16", schedule: str = "auto",
         rows: str = "fixed", machine: Optional[str] = None,
         sizes: Optional[Mapping[str, int]] = None, **more_sizes: int) -> Plan:
    """The plan of an operator with these global sizes: a Plan.

    operator  a shipped one's name ("gemm-rs", "mlp", ...), a graph's text, or the path of its file
    schedule  "auto", the name of a preset or a system and changes ("tiles,tile=64x128", "comet"), or a whole schedule
    rows      "fixed": runs have exactly so many rows; "bucket": so many or fewer
    machine   a name or a file; None: the one for so many ranks
    sizes     all that the graph has, as keywords (m=4096, h=8192) or in a mapping

    "auto" simulates, which takes seconds for large operators. Raises ValueError, RuntimeError.
    """
    return Plan(c_operator(operator, sizes_text(sizes, more_sizes), ranks, dtype), schedule, rows,
                machine)


def check(operator: Operator, *, ranks: int, dtype: Any = "bf16", schedule: str = "auto",
          rows: str = "fixed", machine: Optional[str] = None,
          sizes: Optional[Mapping[str, int]] = None, **more_sizes: int) -> List[str]:
    """Proves the plan free of races and deadlocks: the list of problems, empty when it is proved.

    Arguments and errors are those of plan().
    """
    return plan(operator, ranks=ranks, dtype=dtype, schedule=schedule, rows=rows, machine=machine,
                sizes=sizes, **more_sizes).check()


@functools.lru_cache(maxsize=64)
def _kept_plan(operator, sizes, ranks, dtype, schedule, machine):
    return Plan(c_operator(operator, sizes, ranks, dtype), schedule, "fixed", machine)


def emulate(operator: Operator, tensors: Mapping[str, Sequence[Any]], *, dtype: Any = "bf16",
            schedule: str = "tiles", machine: Optional[str] = None,
            sizes: Optional[Mapping[str, int]] = None, **more_sizes: int) -> int:
    """Computes an operator on the CPU as its plan says, of all ranks in this process.

    tensors  by the graph's names: for each input and each output a list with every rank's, as tensors() says. They
             lie in ordinary memory: PyTorch's, NumPy's or whatever speaks DLPack. Rows may lie apart; what leads
             the columns counts as rows, so [batch, sequence, h] is as good as [m, h]. Outputs are written
    dtype    of all tensors, but for what a graph has i32, i64 (ids) or fp32 (weights of sums): Plan.dtypes

    The other arguments are those of plan(), and errors too; a plan is kept for the next call with these sizes.
    Returns how many ids were no expert's and not -1, or no row of their table: nothing is chosen there.
    """
    by_name = tensors if isinstance(tensors, Mapping) else {}
    ranks = {len(by_rank) for by_rank in by_name.values() if isinstance(by_rank, (list, tuple))}
    if len(ranks) != 1:
        raise ValueError(EXPECTED)
    words = sizes_text(sizes, more_sizes)
    kept = _kept_plan(graph_text(operator), words, ranks.pop(), dtype_text(dtype), schedule, machine)
    with kept.lock:  # so that no other thread's ids are among those of this run
        before = kept.bad_ids()
        kept.execute(tensors)
        return kept.bad_ids() - before
