"""Stand-ins for a framework's tensors and for the library's GPU part."""

import ctypes
import math
import struct
import types

from stretto._library import COperator
from stretto.operations import tensors_in


class Tensor:
    """As much of a torch tensor as the binding looks at."""

    def __init__(self, rows, columns, dtype="torch.bfloat16", device="cuda:0", address=1 << 20,
                 strides=None):
        self.shape = (rows, columns)
        self.dtype = dtype
        kind, _, index = device.partition(":")
        self.device = types.SimpleNamespace(type=kind, index=int(index) if index else None)
        self.address = address
        self.strides = strides or (columns, 1)

    def stride(self):
        return self.strides

    def data_ptr(self):
        return self.address


class CpuTensor:
    """As much of a torch tensor on the CPU, over memory of its own. `gap`: elements behind each row."""

    CODES = {"torch.float32": "f", "torch.float16": "e", "torch.int32": "i", "torch.int64": "q"}

    def __init__(self, shape, dtype="torch.float32", values=(), gap=0):
        self.shape, self.dtype = tuple(shape), dtype
        self.device = types.SimpleNamespace(type="cpu", index=None)
        rows, self.columns = math.prod(self.shape[:-1]), self.shape[-1]
        self.step = self.columns + gap
        self.code = self.CODES[dtype]
        self.memory = bytearray(max(1, rows * self.step) * struct.calcsize(self.code))
        for i, value in enumerate(values):
            struct.pack_into(self.code, self.memory, self._at(i // self.columns, i % self.columns), value)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def _at(self, row, column):
        return (row * self.step + column) * struct.calcsize(self.code)

    def stride(self):
        steps = [self.step, 1]
        for size in reversed(self.shape[1:-1]):
            steps.insert(0, steps[0] * size)
        return tuple(steps[-len(self.shape):])

    def data_ptr(self):
        return self.address

    def rows(self):
        return [[struct.unpack_from(self.code, self.memory, self._at(row, column))[0]
                 for column in range(self.columns)] for row in range(math.prod(self.shape[:-1]))]


class Library:
    """Notes the calls; operations have addresses of their own, and `refusal` makes one fail."""

    def __init__(self, real):
        self.real = real
        self.calls = []
        self.refusal = None

    def __getattr__(self, name):
        if name.startswith(("plan_", "tensor_")) or name == "version":
            return getattr(self.real, name)

        def call(*arguments):
            if self.refusal and self.refusal[0] == name:
                raise self.refusal[1]
            self.calls.append((name, *arguments))
            answer = getattr(type(self), "_" + name, None)
            return answer(self, *arguments) if answer else None
        return call

    def names(self):
        return [call[0] for call in self.calls]

    def _context_open(self, request, handle):
        self.opened = request._obj
        handle._obj.value = 0xc0

    def _context_rank(self, _):
        return 1

    def _context_ranks(self, _):
        return 2

    def _context_gpu(self, _):
        return 0

    def _context_workspace(self, _, num_bytes):
        num_bytes._obj.value = self.opened.workspace_bytes

    def _operation_workspace(self, _, num_bytes):
        num_bytes._obj.value = 1 << 20

    def _operation_learn(self, _, budget_ms, left):
        left._obj.value = 3 if budget_ms < 100 else 0

    def _operation_copied(self, _, num_bytes):
        num_bytes._obj.value = 1 << 40

    def _context_allocate_shared(self, _, num_bytes, address):
        address._obj.value = 0x7000

    def _operation_make(self, _, request, handle):
        op = request._obj.op.contents
        self.made = (op.name, op.graph, op.sizes, op.ranks, op.dtype)
        self.request = request._obj
        handle._obj.value = 0x100

    def _operation_rows(self, _, rows):
        rows._obj.value = int(self.made[2].split()[0].split(b"=")[1])

    def _operation_tensor(self, _, rows, index, info):
        """What a rank 1 of 2 has: as the library says of the operator with so many rows."""
        name, graph, sizes, ranks, dtype = self.made
        words = sizes.split()
        words[0] = words[0].split(b"=")[0] + b"=%d" % rows
        self.real.tensor_of(ctypes.byref(COperator(name, graph, b" ".join(words), ranks, dtype)), 0, 1,
                            index, info)

    def _enqueue(self, _, rows, words, count, stream):
        self._operation_run_at(_, rows, rows, tensors_in(words), count, stream)
        return 0

    def _operation_run_at(self, _, rows_at, bucket, tensors, count, stream):
        self.given = {tensors[i].name: (tensors[i].address, tensors[i].row_stride)
                      for i in range(count)}

    def _operation_runs_per_graph(self, _, rows, runs):
        runs._obj.value = 2

    def _operation_error(self, _, what):
        what._obj.value = b"rank 1 did not come"

    def _operation_schedule(self, _, rows, text):
        text._obj.value = b"tiles of %d" % rows

    def _operation_reason(self, _, rows, text):
        text._obj.value = b"measured with %d" % rows
