"""Operators on GPUs, one process a GPU: a context once (contexts.py), an operation for each operator once, then runs."""

import ctypes
import functools
import sys
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p, pointer
from typing import Any, Dict, Mapping, Optional

from ._library import (CCallTensor, COperationRequest, CTensorInfo, budget, dtype_text, learning_budget, library, serves,
                       text, whole)
from .contexts import Context
from .operators import Operator, TensorInfo, c_operator, info_of, sizes_text
from .tensors import on_gpu, rows_address


MOST_KEPT = 1024
# A tensor of a call in words, and which of them is its address.
WORDS, ADDRESS = ctypes.sizeof(CCallTensor) // 8, CCallTensor.address.offset // 8


def tensors_in(words):
    """Words as what they are."""
    return (CCallTensor * (len(words) // WORDS)).from_buffer(words)


def stream_handle(stream, gpu):
    """A stream as the library takes it: torch's current one for None, an object's cuda_stream, a number."""
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None:
            return 0
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a stream's object takes the host microseconds
        return raw(gpu) if raw else torch.cuda.current_stream(gpu).cuda_stream
    return whole(getattr(stream, "cuda_stream", stream), "stream")


class Operation:
    """One operator with its plans, on this rank's GPU, for tensors that come with each call.

        mlp = stretto.Operation(context, "mlp", rows="fixed", m=4096, h=8192, f=28672)
        mlp(x=x, wg=wg, wu=wu, wd=wd, down=y)     # enqueues a run on torch's current stream

    operator  a shipped one's name, a graph's text, or the path of its file, with all its sizes as keywords (or in
              `sizes`); the first size is the most rows of a run
    dtype     "bf16", "fp16" (or torch.bfloat16, ...)
    schedule  "auto", the name of a preset or a system and changes, or a whole schedule
    rows      "fixed": every run has exactly so many rows, so every schedule can serve; "bucket": so many or fewer,
              for operators of one product that no all-to-all feeds or drains
    measure_ms  where "auto" is not sure: for how many milliseconds of runs making the operation, and prepare(), may
              time schedules on its GPUs and take the fastest; 0: never; None: as STRETTO_MEASURE_MS says
    shared_results  True: results that other ranks write lie in memory of Context.empty_shared(), at the same place on
              all ranks, and are not copied; finish() names ranks that gave another

    Collective. Making it compiles kernels that are not in the cache and may take seconds. Raises ValueError for
    what cannot be served, RuntimeError.

    max_rows  rows of the largest run
    tensors   by name, as a run of max_rows has them on this rank: TensorInfo
    """

    def __init__(self, context: Context, operator: Operator, *, dtype: Any = "bf16",
                 schedule: str = "auto", rows: str = "bucket", measure_ms: Optional[float] = None,
                 shared_results: bool = False, sizes: Optional[Mapping[str, int]] = None, **more_sizes: int):
        self._handle = None
        if not isinstance(context, Context):
            raise ValueError(f"context is {context!r}; a stretto.Context was expected")
        context._require_open()
        self._context = context
        self.dtype = dtype_text(dtype)
        op = c_operator(operator, sizes_text(sizes, more_sizes), context.ranks, self.dtype)
        request = COperationRequest(pointer(op), serves(rows), text(schedule, "schedule"),
                                    budget(measure_ms), bool(shared_results))
        handle = c_void_p()
        library().operation_make(context._handle, byref(request), byref(handle))
        self._handle = handle
        context._operations.append(self)
        count, most = c_int32(), c_int64()
        library().tensor_count(byref(op), byref(count))
        library().operation_rows(handle, byref(most))
        self._num_tensors, self.max_rows, self.rows = count.value, most.value, rows
        self._infos = functools.lru_cache(maxsize=1024)(self.tensors_of)
        self._kept = {}  # shapes, strides, types and devices of a call's tensors -> what _looked_at() made of them
        self.tensors = self._infos(self.max_rows)
        fewer = self._infos(1) if serves(rows) else self.tensors
        # Those that have all of a run's rows, so that a call need not say how many.
        self._say_rows = [name for name, info in self.tensors.items()
                          if info.held != "rows" and info.shape != fewer[name].shape]

    def tensors_of(self, num_rows: int) -> Dict[str, TensorInfo]:
        """What a run of so many rows takes of this rank, by name: inputs, then outputs."""
        infos = {}
        for index in range(self._num_tensors):
            found = CTensorInfo()
            library().operation_tensor(self._open(), whole(num_rows, "num_rows"), index, byref(found))
            infos[found.name.decode()] = info_of(found)
        return infos

    def _open(self):
        if self._handle is None:
            raise ValueError("this operation is closed")
        return self._handle

    def _given(self, tensors, num_rows):
        """The rows of a run, and its tensors as words, of which the library reads them."""
        try:
            key = [num_rows]
            for name, one in tensors.items():
                key += name, one.shape, one.stride(), one.dtype, one.device
            key = tuple(key)
            kept = self._kept.get(key)
        except (AttributeError, TypeError):  # other tensors than PyTorch's
            return self._looked_at(tensors, num_rows)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = self._looked_at(tensors, num_rows)
        rows, found = kept
        words = type(found).from_buffer_copy(found)
        words.names = found  # whose texts it points to
        at = ADDRESS
        for one in tensors.values():
            words[at] = one.data_ptr()
            at += WORDS
        return rows, words

    def _looked_at(self, tensors, num_rows):
        views = {name: on_gpu(tensor, name, self._context.gpu) for name, tensor in tensors.items()}
        if num_rows is None:
            said = {views[name].rows for name in self._say_rows if name in views}
            if len(said) > 1:
                raise ValueError(f"{' and '.join(self._say_rows)} have as many rows: {sorted(said)}")
            num_rows = said.pop() if said else self.max_rows
        infos = self._infos(num_rows) if num_rows != 0 else {}
        for name, view in views.items():
            if name in infos:  # else the library says which there are
                view.require(name, infos[name].shape, infos[name].dtype, infos[name].is_output)
        given = [CCallTensor(text(name, "name"), 0, 0, view.address, view.row_stride)
                 for name, view in views.items()]
        array = (CCallTensor * len(given))(*given)
        words = (c_uint64 * (WORDS * len(given))).from_buffer(array)
        words.names = array
        return num_rows, words

    def prepare(self, num_rows: int) -> None:
        """Makes the plan that serves so many rows, ahead of the first run. Collective."""
        library().operation_prepare(self._open(), whole(num_rows, "num_rows"))

    def learn(self, budget_ms: float) -> int:
        """For a server that is idle. Measures schedules of plans that are there and that "auto" is not sure of, those
        with most runs first, each once, and takes the fastest from the next run on; what is found is kept for later
        processes. Returns how many plans another call would measure.

        budget_ms  of all time that it takes, 0 to 3600000, of rank 0; no other plan is begun after it. 0 measures
                   nothing

        Collective, between runs. Waits for all runs before and raises what finish() raises. Graphs that hold an older
        plan go on with it, and runs that are captured later take the new one. Raises ValueError, on all ranks, where a
        stream is being captured that any of them knows.
        """
        left = c_int32()
        library().operation_learn(self._open(), learning_budget(budget_ms), byref(left))
        return left.value

    def schedule(self, num_rows: Optional[int] = None) -> str:
        """The schedule of the plan that serves so many rows (default: max_rows), which is made already."""
        found = c_char_p()
        library().operation_schedule(self._open(), self.max_rows if num_rows is None else
                                     whole(num_rows, "num_rows"), byref(found))
        return found.value.decode()

    def reason(self, num_rows: Optional[int] = None) -> str:
        """Why "auto" took that schedule, and how sure it is; empty where the schedule was named."""
        found = c_char_p()
        library().operation_reason(self._open(), self.max_rows if num_rows is None else
                                   whole(num_rows, "num_rows"), byref(found))
        return found.value.decode()

    def runs_per_graph(self, num_rows: Optional[int] = None) -> int:
        """A captured graph holds a multiple of so many runs of so many rows, whose plan is made: mostly 1."""
        runs = c_int32()
        library().operation_runs_per_graph(self._open(), self.max_rows if num_rows is None else
                                           whole(num_rows, "num_rows"), byref(runs))
        return runs.value

    def __call__(self, **tensors: Any) -> None:
        """run(tensors): op(x=x, w=w, y=y)."""
        self.run(tensors)

    def run(self, tensors: Mapping[str, Any], num_rows: Optional[int] = None,
            stream: Any = None) -> None:
        """Enqueues one run and returns; all ranks do the same, in the same order.

        tensors   every input and every output by the graph's name, on this rank's GPU: PyTorch's, or what has
                  __cuda_array_interface__ or speaks DLPack. They begin at multiples of 16 bytes, and so do rows, which
                  may lie apart where nothing moves them as one piece; outputs lie on no other tensor. ValueError says
                  where. Runs read and write them later: keep them until these are done
        num_rows  of the operator in this run; None: those of the tensors that have all of them, else max_rows. 0 do
                  nothing
        stream    a stream of torch's, a number (cudaStream_t), or None: torch's current stream, the default stream
                  without torch. It may be under capture, in torch.cuda.graph() for instance: capture a multiple
                  of runs_per_graph() runs. Launches of such graphs count as runs: finish() after them, and end the
                  graphs before close()

        All work on the GPU that uses many SMs, other operations included, is ordered with it by streams.
        Raises ValueError for rows or tensors that are not served, RuntimeError. A wait that does not end in time is
        told by finish(), and by error().
        """
        handle = self._open()
        rows, words = self._given(tensors, None if num_rows is None else whole(num_rows, "num_rows"))
        status = library().enqueue(handle.value, rows, words, len(words) // WORDS,
                                   stream_handle(stream, self._context.gpu))
        if status != 0:
            library().fail(status)

    def run_at(self, tensors: Mapping[str, Any], rows_at: Any, bucket: int,
               stream: Any = None) -> None:
        """One run whose row count is read from GPU memory when it starts: for graphs that serve all counts.

        rows_at  a tensor of one int32 on this GPU, or its address; 0 to `bucket`, the same on all ranks
        bucket   the most rows, which all tensors have; chooses the plan, which prepare(bucket) makes ahead. For few
                 rows all of them may be multiplied, whatever stands in those that the run does not have: take one
                 near the rows
        """
        handle, most = self._open(), whole(bucket, "bucket")
        _, words = self._given(tensors, most)
        library().operation_run_at(handle, rows_address(rows_at, self._context.gpu), most, tensors_in(words),
                                   len(words) // WORDS, stream_handle(stream, self._context.gpu))

    @property
    def workspace_bytes(self) -> int:
        """Of this GPU, for what lies between ranks; of a workspace that operations share all."""
        count = c_uint64()
        library().operation_workspace(self._open(), byref(count))
        return count.value

    def finish(self) -> None:
        """Waits for all runs; collective. Synchronise streams on which graphs were launched before.

        Raises RuntimeError that names a wait which did not end in time: results since the last finish() are
        then useless, and the operation can be used again.
        """
        library().operation_finish(self._open())

    def error(self) -> str:
        """What went wrong so far, as far as this process knows; empty: nothing. Not collective, and waits for no run."""
        what = c_char_p()
        library().operation_error(self._open(), byref(what))
        return what.value.decode()

    def copied_bytes(self) -> int:
        """Of tensors that runs have copied: results that other ranks write, which lie in memory of the operation's own
        (shared_results spares that), and others that it cannot take where they lie.
        """
        count = c_uint64()
        library().operation_copied(self._open(), byref(count))
        return count.value

    def bad_ids(self) -> int:
        """How many ids of all runs that have ended were no expert's and not -1: nothing is chosen there. Of look-ups
        how many were no row of their table, in this rank's tables.
        """
        count = c_uint64()
        library().operation_bad_ids(self._open(), byref(count))
        return count.value

    def close(self) -> None:
        """Collective: waits for its runs and frees what it has."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        self._context._operations.remove(self)
        library().operation_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        # Of other ranks none may come to a collective while an error leaves the block.
        if error is None:
            self.close()
