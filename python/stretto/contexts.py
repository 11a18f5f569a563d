"""A rank of a job on its GPU: what its operations share."""

import ctypes
from ctypes import byref, c_uint64, c_void_p
from typing import Any, Callable, List, Optional

from ._library import EXCHANGE, CContextRequest, dtype_text, library, num_bytes, num_sms, seconds, whole
from .tensors import BYTES, SharedTensor


def exchange_of(gather, ranks, failures):
    """The C function for a Python one; what that raises is kept for who opens the context."""
    def exchange(_, mine, everyone, num_bytes):
        try:
            texts = gather(ctypes.string_at(mine, num_bytes))
            if len(texts) != ranks or any(len(one) != num_bytes for one in texts):
                raise ValueError(f"exchange is to return {ranks} texts of {num_bytes} bytes each, by rank")
            ctypes.memmove(everyone, b"".join(texts), ranks * num_bytes)
            return 0
        except BaseException as error:  # no exception passes through C
            failures.append(error)
            return 1
    return EXCHANGE(exchange)


class Context:
    """This process's rank of a job, on its GPU. Collective over the job's ranks, which are all on one machine.

    timeout_s  seconds after which a run's wait for another rank ends with an error: 0 < timeout_s <= 3600
    rank, ranks, gpu, exchange
               without them the job is the one that torchrun, mpirun or `stretto launch` started, and the GPU its
               local rank's (torch.cuda.set_device(LOCAL_RANK)), or the only one that the process sees. Else this is
               rank `rank` of `ranks`, on GPU `gpu`; exchange(mine: bytes) -> list of every rank's bytes, by rank, is
               called once. ranks=1 is a job of its own
    workspace_bytes, workspace_grows
               one workspace of so many bytes of every GPU for what lies between ranks of all operations, which takes
               more where a plan needs more and workspace_grows is true, else such a plan is refused. 0 and False:
               each operation has its own. The same on all ranks
    free_sms   SMs of every GPU that no run holds, for others' kernels that wait for other ranks while runs are under
               way, such as NCCL's of another group; half of them at the most. The same on all ranks
    orders_streams
               a run waits for the one before it on its GPU where that went to another stream, of all contexts of the
               process that are made so; else the caller orders streams by events. The same on all ranks

    With PyTorch's process groups:

        def exchange(mine):
            all = [None] * dist.get_world_size(group)
            dist.all_gather_object(all, mine, group=group)
            return all

    Raises ValueError for what makes no sense, ranks that disagree named; RuntimeError: no GPU, a rank that does not
    join, ... Close it, or use it in `with`; what is never closed lasts until the process ends.
    """

    def __init__(self, timeout_s: float = 10.0, *, rank: Optional[int] = None,
                 ranks: Optional[int] = None, gpu: Optional[int] = None,
                 exchange: Optional[Callable[[bytes], List[bytes]]] = None,
                 workspace_bytes: int = 0, workspace_grows: bool = False, free_sms: int = 0,
                 orders_streams: bool = False):
        given = {"rank": rank, "ranks": ranks, "gpu": gpu}
        if ranks is None and (exchange or any(value is not None for value in given.values())):
            raise ValueError("ranks is missing: rank, gpu and exchange go with it")
        numbers = {name: whole(value or 0, name) for name, value in given.items()}
        for name, number in numbers.items():
            if not 0 <= number < 2**31 or (name == "ranks" and ranks is not None and number == 0):
                raise ValueError(f"{name} is {number}")
        failures = []
        function = exchange_of(exchange, numbers["ranks"], failures) if exchange else EXCHANGE()
        request = CContextRequest(seconds(timeout_s, "timeout_s"), numbers["rank"],
                                  numbers["ranks"], numbers["gpu"], function, None,
                                  num_bytes(workspace_bytes, "workspace_bytes"), bool(workspace_grows),
                                  num_sms(free_sms, "free_sms"), bool(orders_streams))
        self._handle = c_void_p()
        self._operations = []
        try:
            library().context_open(byref(request), byref(self._handle))
        except RuntimeError as error:
            if failures:
                raise failures[0] from error
            raise
        self.rank = library().context_rank(self._handle)
        self.ranks = library().context_ranks(self._handle)
        self.gpu = library().context_gpu(self._handle)

    def empty_shared(self, rows: int, cols: int, dtype: Any = "bf16") -> SharedTensor:
        """Collective. A matrix of the same size on every rank's GPU, which the others reach: for results of operations
        with shared_results, which other ranks write there without a copy. Lasts until the context closes.
        """
        self._require_open()
        kind = dtype_text(dtype)
        if kind not in BYTES:
            raise ValueError(f"dtype is {dtype!r}; one of {', '.join(BYTES)} was expected")
        sizes = whole(rows, "rows"), whole(cols, "cols")
        size = sizes[0] * sizes[1] * BYTES[kind]
        if min(sizes) <= 0 or size >= 2**63:
            raise ValueError(f"rows={rows} and cols={cols} are no size of a matrix in memory")
        address = c_uint64()
        library().context_allocate_shared(self._handle, size, byref(address))
        return SharedTensor(address.value, *sizes, kind, self.gpu)

    @property
    def workspace_bytes(self) -> int:
        """What the workspace of all operations has of this GPU now; 0 where each has its own."""
        self._require_open()
        count = c_uint64()
        library().context_workspace(self._handle, byref(count))
        return count.value

    def _require_open(self):
        if self._handle is None:
            raise ValueError("the context is closed")

    def close(self) -> None:
        """Collective. Closes the operations that are left, the last made first, then the context. In a fork of the
        process that opened it this does nothing.
        """
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
