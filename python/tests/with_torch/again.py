"""Calls that come again, without a GPU: the library is given what it would enqueue. Tensors lie on the CPU."""

import ctypes
import sys
import types
import unittest
from unittest import mock

import ranks  # noqa: F401  (PyTorch, or no tests)

import torch

import stretto
import stretto.torch as st
from stretto._library import CCallTensor
from stretto.operations import tensors_in
from stretto.torch import _checked, _engine, _gpu, _operations, _records, _repeats
from stretto.torch._checked import Checked

view_of = sys.modules["stretto.tensors"].view_of  # stretto.tensors is a function, too


class Operation(stretto.Operation):
    """One that is never made: its tensors are those that the library says of the operator."""

    made = []

    def __init__(self, context, operator, *, dtype, schedule, rows, sizes, measure_ms):
        self._handle, self._context = ctypes.c_void_p(1), types.SimpleNamespace(gpu=0)
        self.dtype = dtype
        self._kept, self.runs, self.rows = {}, 1, rows
        of_rows = "m" if "m" in sizes else next(iter(sizes))
        self.max_rows = sizes[of_rows]
        self._infos = lambda count: stretto.tensors(operator, ranks=1, dtype=dtype,
                                                    sizes={**sizes, of_rows: count})
        Operation.made.append(self)

    def runs_per_graph(self, num_rows=None):
        return self.runs

    def bad_ids(self):
        return 0


ENQUEUE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)


class Calls(unittest.TestCase):
    """By the library, where PyTorch lets it look at tensors."""

    way = _repeats.Repeats if hasattr(torch.Tensor, _repeats.ATTRIBUTE) else Checked

    def setUp(self):
        Operation.made.clear()
        _records.forget()
        self.enqueued, self.status, self.is_capturing = [], 0, False
        operations = types.SimpleNamespace(enqueue=self.long_way)
        library = types.SimpleNamespace(enqueue=ENQUEUE(self.enqueue), fail=self.fail)
        objects = _repeats.objects() if self.way is _repeats.Repeats else None
        for one in (
                mock.patch.object(_repeats, "objects", lambda: objects),
                mock.patch.object(_operations, "MOST_FEW", 0),  # what serves any number of rows serves these
                mock.patch.object(stretto, "Operation", Operation),
                mock.patch.object(stretto, "Context", lambda *given, **named: mock.Mock()),
                mock.patch.dict(sys.modules["stretto.operations"].__dict__, {
                    "on_gpu": lambda tensor, name, gpu: view_of(tensor, name), "library": lambda: operations}),
                mock.patch.object(_records, "library", lambda: library),
                mock.patch.object(_checked, "library", lambda: library),
                mock.patch.object(_records, "DEVICE", "cpu"),
                mock.patch.object(_records, "_is_capturing", lambda: self.is_capturing),
                mock.patch.object(torch._C, "_cuda_getCurrentRawStream", lambda index: 77, create=True),
                mock.patch.object(torch.cuda, "current_stream", lambda device: 77),
                mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False),
                mock.patch.object(torch.cuda, "get_device_capability", lambda gpu: (9, 0)),
                mock.patch.dict(_engine.ENGINES, {"cpu": _gpu.Engine})):
            one.start()
            self.addCleanup(one.stop)
        threads = st.Threads(1, timeout_s=60)
        self.addCleanup(threads.close)
        self.group = threads.groups[0]
        st.reset_report()

    def noted(self, way, rows, array, count, stream):
        given = {array[i].name.decode(): (array[i].address, array[i].row_stride) for i in range(count)}
        self.enqueued.append((way, rows, given, stream))

    def long_way(self, handle, rows, words, count, stream):
        self.noted("long", rows, tensors_in(words), count, stream)
        return 0

    def enqueue(self, handle, rows, array, count, stream):
        self.noted("again", rows, (CCallTensor * count).from_address(array), count, stream)
        return self.status

    def fail(self, status):
        raise RuntimeError(f"status {status}")

    def ways(self):
        found = [way for way, *_ in self.enqueued]
        self.enqueued.clear()
        return found

    x, w = torch.zeros(2, 4, 64, dtype=torch.bfloat16), torch.zeros(32, 64, dtype=torch.bfloat16)
