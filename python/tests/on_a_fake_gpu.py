"""What tests of contexts and operations share: the library, but for its GPU part, and a rank's tensors."""

import unittest
from unittest import mock

import stretto
from fakes import Library, Tensor
from stretto import _library, contexts, operations, operators


class OnAFakeGpu(unittest.TestCase):
    def setUp(self):
        self.library = Library(_library.library())
        for module in (contexts, operations, operators):
            patch = mock.patch.object(module, "library", lambda: self.library)
            patch.start()
            self.addCleanup(patch.stop)
        self.context = stretto.Context(timeout_s=3)

    def make(self, **words):
        return stretto.Operation(self.context, "gemm-rs", m=256, n=512, k=1024, **words)

    def tensors(self, rows=256):
        """Of a rank of two."""
        return {"a": Tensor(rows, 512), "b": Tensor(512, 512, address=2 << 20),
                "out": Tensor((rows + 1) // 2, 512, address=3 << 20)}
