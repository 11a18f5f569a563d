"""Operators on GPUs, one process a GPU: a context once, an operation for each shape once, then runs."""

import sys
from ctypes import byref, c_char_p, c_uint64, c_void_p
from typing import Any, Optional

from ._library import (TENSORS, COperationRequest, dtype_text, library, seconds, serves, text,
                       whole)
from .operators import tensors as tensors_of
from .tensors import GpuTensor, address_of, rows_address


def stream_handle(stream, gpu):
    """A stream as the library takes it: torch's current one for None, an object's cuda_stream, a number."""
    if stream is None:
        torch = sys.modules.get("torch")
        return torch.cuda.current_stream(gpu).cuda_stream if torch else 0
    return whole(getattr(stream, "cuda_stream", stream), "stream")


class Context:
    """This process's rank of the job that torchrun, mpirun or `stretto launch` started.

    Collective over the job. The rank's GPU is its local rank's (torch.cuda.set_device(LOCAL_RANK)), or
    the only one that the process sees; without a launcher there is one rank, on GPU 0.

    timeout_s  seconds after which a run's wait for another rank ends with an error: 0 < timeout_s <= 3600

    Raises ValueError for a launcher's variables that make no sense, RuntimeError: no GPU, a rank that does
    not join, ... Close it, or use it in `with`; what is never closed lasts until the process ends.
    """

    def __init__(self, timeout_s: float = 10.0):
        self._handle = c_void_p()
        self._operations = []
        library().context_open(seconds(timeout_s, "timeout_s"), byref(self._handle))
        self.rank = library().context_rank(self._handle)
        self.ranks = library().context_ranks(self._handle)
        self.gpu = library().context_gpu(self._handle)

    def close(self) -> None:
        """Collective. Closes the operations that are left, the last made first, then the context."""
        if self._handle is None:
            return
        for operation in reversed(list(self._operations)):
            operation.close()
        handle, self._handle = self._handle, None
        library().context_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        # Of other ranks none may come to a collective while an error leaves the block.
        if error is None:
            self.close()


class Operation:
    """One operator with its plans, on this rank's GPU.

    Operation(context, "gemm-rs", n=8192, k=28672, max_rows=4096, a=a, b=b, out=out)

    kind, n, k   the operator and its global sizes
    max_rows     M: with rows="bucket" a run has any number of rows up to it, with rows="fixed" exactly it
    dtype        "bf16", "fp16" (or torch.bfloat16, ...)
    schedule     "auto", a preset's name and changes, or a whole schedule
    a, b, out    tensors of the caller on this rank's GPU with the room that `shapes` would say
                 (stretto.tensors()), row-major without gaps, beginning at a multiple of 16 bytes; None: the
                 operation allocates it. The result of gemm-ar is always its own: other ranks write it.
                 They are bound here, since plans hold their addresses: runs read what they hold then.

    Collective. Making it allocates, compiles kernels that are not in the cache and may take seconds; with
    fixed rows it may write `out`. Raises ValueError for what cannot be served, RuntimeError.

    shapes  {"a": (rows, columns), "b": ..., "out": ...}: what each tensor has room for
    a, b, out  GpuTensor: torch.from_dlpack(operation.out) is a view
    """

    def __init__(self, context: Context, kind: str, n: int, k: int, max_rows: int,
                 dtype: Any = "bf16", schedule: str = "auto", rows: str = "bucket", a: Any = None,
                 b: Any = None, out: Any = None):
        self._handle = None
        if not isinstance(context, Context):
            raise ValueError(f"context is {context!r}; a stretto.Context was expected")
        self._context = context
        self.kind, self.n, self.k, self.dtype = kind, n, k, dtype_text(dtype)
        self.max_rows, self.rows = whole(max_rows, "max_rows"), rows
        infos = tensors_of(kind, ranks=context.ranks, dtype=self.dtype, rows=rows, m=max_rows, n=n,
                           k=k)
        self.shapes = {name: info.shape for name, info in infos.items()}
        # Kept: runs read and write them.
        self._given = {name: tensor for name, tensor in (("a", a), ("b", b), ("out", out))
                       if tensor is not None}
        at = {name: address_of(tensor, name, self.shapes[name], self.dtype, context.gpu)
              for name, tensor in self._given.items()}
        request = COperationRequest(
            text(kind, "kind"), whole(n, "n"), whole(k, "k"), text(self.dtype, "dtype"),
            self.max_rows, serves(rows), text(schedule, "schedule"), at.get("a", 0), at.get("b", 0),
            at.get("out", 0))
        if context._handle is None:
            raise ValueError("the context is closed")
        handle = c_void_p()
        library().operation_make(context._handle, byref(request), byref(handle))
        self._handle = handle
        context._operations.append(self)
        self.a, self.b, self.out = (self._tensor(name) for name in TENSORS)

    def _tensor(self, name):
        address = c_uint64()
        library().operation_address(self._handle, TENSORS[name], byref(address))
        return GpuTensor(address.value, self.shapes[name], self.dtype, self._context.gpu)

    def _open(self):
        if self._handle is None:
            raise ValueError("this operation is closed")
        return self._handle

    def prepare(self, rows: int) -> None:
        """Makes the plan that serves so many rows, ahead of the first run. Collective."""
        library().operation_prepare(self._open(), whole(rows, "rows"))

    def schedule(self, rows: Optional[int] = None) -> str:
        """The schedule of the plan that serves so many rows (default: max_rows), which is made already."""
        found = c_char_p()
        library().operation_schedule(self._open(), self.max_rows if rows is None else
                                     whole(rows, "rows"), byref(found))
        return found.value.decode()

    def run(self, rows: Optional[int] = None, stream: Any = None) -> None:
        """Enqueues one run of so many rows (default: max_rows) and returns; all ranks do the same.

        stream  a stream of torch's, a number (cudaStream_t), or None: torch's current stream, the default
                stream without torch. It may be under capture, in torch.cuda.graph() for instance: capture
                an even number of runs. Launches of such graphs count as runs: finish() after them, and end
                the graphs before close().

        All work on the GPU that uses many SMs, other operations included, is ordered with it by streams.
        Raises ValueError for rows that are not served, RuntimeError. A wait that does not end in time is
        told by finish().
        """
        library().operation_run(self._open(), self.max_rows if rows is None else
                                whole(rows, "rows"),
                                stream_handle(stream, self._context.gpu))

    def run_at(self, rows: Any, bucket: int, stream: Any = None) -> None:
        """One run whose row count is read from GPU memory when it starts: for graphs that serve all counts.

        rows    a tensor of one int32 on this GPU, or its address; 0 to `bucket`, the same on all ranks
        bucket  the most rows; chooses the plan, which prepare(bucket) makes ahead. For few rows all of them may be
                multiplied, whatever stands in those of A that the run does not have: take one near the rows
        """
        library().operation_run_at(self._open(), rows_address(rows, self._context.gpu),
                                   whole(bucket, "bucket"),
                                   stream_handle(stream, self._context.gpu))

    def finish(self) -> None:
        """Waits for all runs; collective. Synchronise streams on which graphs were launched before.

        Raises RuntimeError that names a wait which did not end in time: results since the last finish() are
        then useless, and the operation can be used again.
        """
        library().operation_finish(self._open())

    def close(self) -> None:
        """Collective: waits for its runs and frees what it has."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        self._context._operations.remove(self)
        self._given = {}
        library().operation_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        # Of other ranks none may come to a collective while an error leaves the block.
        if error is None:
            self.close()
