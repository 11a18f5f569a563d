"""Stand-ins for a framework's tensors and for the library's GPU part."""

import ctypes
import math
import struct
import types


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

    CODES = {"torch.float32": "f", "torch.float16": "e"}

    def __init__(self, shape, dtype="torch.float32", values=(), gap=0):
        self.shape, self.dtype = tuple(shape), dtype
        self.device = types.SimpleNamespace(type="cpu", index=None)
        rows, self.columns = math.prod(self.shape[:-1]), self.shape[-1]
        self.step = self.columns + gap
        self.code = self.CODES[dtype]
        self.memory = bytearray(struct.pack(f"{rows * self.step}{self.code}", *[0] * rows * self.step))
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

    def _context_open(self, _, handle):
        handle._obj.value = 0xc0

    def _context_rank(self, _):
        return 1

    def _context_ranks(self, _):
        return 2

    def _context_gpu(self, _):
        return 0

    def _operation_make(self, _, request, handle):
        self.request = request._obj
        handle._obj.value = 0x100

    def _operation_address(self, _, tensor, address):
        given = (self.request.a, self.request.b, self.request.out)[tensor]
        address._obj.value = given or (tensor + 1) << 30

    def _operation_schedule(self, _, rows, text):
        text._obj.value = b"tiles of %d" % rows
