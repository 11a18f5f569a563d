"""Collectives that run beside products: on a stream of their own, until somebody waits for the result."""

import contextlib
import ctypes
import functools
import os

import torch

# Of a GPU's clock, some microseconds: what comes first has its blocks on the GPU, and of two kernels that may begin at
# the same time the collective has to be that. Behind a product's blocks it would wait for all of them.
HEAD_START = 8000
# SMs that products leave to NCCL's blocks. cuBLAS begins a block on each SM that it is told of, which multiplies its
# tiles one after the other: one that found no SM would begin with them when the collective has ended.
LEFT_SMS = 32
STEP = 256  # rows of a product, in which it is cut
# What is expected of a collective and of a product: to be wrong costs a little time.
LATENCY_US, BYTES_PER_US, FLOPS_PER_US = 15, 200e3, 600e6
SHORTEST_US = 20  # of a product: another stream takes some microseconds, too
_streams = {}  # by index of the GPU


def _stream(device):
    if device.index not in _streams:
        _streams[device.index] = torch.cuda.Stream(device, priority=-1)
    return _streams[device.index]


@functools.lru_cache(maxsize=None)
def _set_sms():
    """cuBLAS's function that limits SMs, of the library that PyTorch has loaded; None: there is none."""
    try:
        name = f"libcublas.so.{(torch.version.cuda or '').split('.')[0]}"
        function = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW).cublasSetSmCountTarget
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_int
    return function


@contextlib.contextmanager
def _fewer_sms(device):
    """Products inside leave some SMs."""
    limit = _set_sms() if device.type == "cuda" else None
    if limit is None:
        yield
        return
    with torch.cuda.device(device):
        handle = torch.cuda.current_blas_handle()
        limit(handle, max(1, torch.cuda.get_device_properties(device).multi_processor_count - LEFT_SMS))
        try:
            yield
        finally:
            limit(handle, 0)


def rows_within(us, rows, flops_a_row):
    """Of so many rows of a product how many are multiplied in so long, in steps; all, where few would be left."""
    found = -(-int(us * FLOPS_PER_US / flops_a_row) // STEP) * STEP
    return rows if 4 * found >= 3 * rows else found


class Beside:
    """A collective that has begun: of _collectives.py, into `out`. What the caller enqueues from now on runs beside it,
    a product of so many `flops`. Other collectives of the group come after wait().
    """

    def __init__(self, collective, group, tensor, out, flops):
        self._out, self._side, self._us = out, None, 0
        if flops < SHORTEST_US * FLOPS_PER_US:
            collective(group, tensor, out)
            return
        sent = max(tensor.numel(), out.numel()) * tensor.element_size() * (group.ranks - 1) / group.ranks
        self._us = LATENCY_US + sent * (1 + (tensor.numel() == out.numel())) / BYTES_PER_US
        if not tensor.is_cuda:
            collective(group, tensor, out)
            return
        self._tensor = tensor  # whose memory is taken until then
        self._side = _stream(tensor.device)
        with torch.cuda.device(tensor.device):
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                collective(group, tensor, out)
            torch.cuda._sleep(HEAD_START)

    def multiply(self, a, b, out=None):
        """a @ b: on fewer SMs as much of it as the collective is expected to take, the rest on all."""
        made = a.new_empty((a.shape[0], b.shape[1])) if out is None else out
        first = rows_within(self._us, a.shape[0], 2 * b.numel())
        if first > 0:
            with _fewer_sms(a.device):
                torch.mm(a[:first], b, out=made[:first])
        if first < a.shape[0]:
            torch.mm(a[first:], b, out=made[first:])
        return made

    def wait(self):
        """The result, for what is enqueued from now on."""
        if self._side is not None:
            torch.cuda.current_stream(self._out.device).wait_stream(self._side)
            self._tensor = None
        return self._out
