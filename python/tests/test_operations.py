"""Contexts and operations: what reaches the library, in which order, and which tensors are refused."""

import ctypes
import os
import unittest
from unittest import mock

import stretto
from fakes import Library, Tensor
from stretto import _library, operations, operators
from stretto.tensors import DLManagedTensor, address_of


class OnAFakeGpu(unittest.TestCase):
    def setUp(self):
        self.library = Library(_library.library())
        for module in (operations, operators):
            patch = mock.patch.object(module, "library", lambda: self.library)
            patch.start()
            self.addCleanup(patch.stop)
        self.context = stretto.Context(timeout_s=3)

    def make(self, **words):
        return stretto.Operation(self.context, "gemm-rs", 512, 1024, 256, **words)


class Operations(OnAFakeGpu):
    def test_a_context_knows_its_rank(self):
        self.assertEqual((self.context.rank, self.context.ranks, self.context.gpu), (1, 2, 0))
        self.assertEqual(self.library.calls[0][1], 3.0)

    def test_tensors_of_the_caller_are_bound_and_kept(self):
        a, b, out = Tensor(256, 512), Tensor(512, 512, address=2 << 20), Tensor(128, 512)
        operation = self.make(a=a, b=b, out=out, rows="fixed", schedule="tiles")
        request = self.library.request
        self.assertEqual((request.kind, request.n, request.k, request.max_rows, request.serves,
                          request.dtype, request.schedule),
                         (b"gemm-rs", 512, 1024, 256, 0, b"bf16", b"tiles"))
        self.assertEqual((request.a, request.b, request.out), (1 << 20, 2 << 20, 1 << 20))
        self.assertEqual(operation.b.data_ptr(), 2 << 20)
        self.assertIs(operation._given["a"], a)

    def test_what_is_not_given_is_the_operations(self):
        operation = self.make()
        self.assertEqual(self.library.request.a, 0)
        self.assertEqual(operation.a.shape, (256, 512))
        self.assertEqual(operation.out.data_ptr(), 3 << 30)

    def test_runs_take_rows_and_streams(self):
        class Stream:
            cuda_stream = 77
        operation = self.make()
        operation.run(stream=Stream())
        operation.run(8, stream=5)
        operation.run_at(Tensor(1, 1, "torch.int32", address=4096), 64, stream=5)
        operation.run_at(8192, 64, stream=0)
        calls = [call[2:] for call in self.library.calls if call[0].startswith("operation_run")]
        self.assertEqual(calls, [(256, 77), (8, 5), (4096, 64, 5), (8192, 64, 0)])

    def test_row_counts_that_the_gpu_cannot_read_are_refused(self):
        operation = self.make()
        for rows, why in ((Tensor(1, 1, "torch.int64"), "one int32"),
                          (Tensor(1, 2, "torch.int32"), "one int32"),
                          (Tensor(1, 1, "torch.int32", device="cpu"), "cuda:0"),
                          (Tensor(1, 1, "torch.int32", device="cuda:1"), "cuda:0")):
            with self.assertRaisesRegex(ValueError, why):
                operation.run_at(rows, 64, stream=5)
        self.assertNotIn("operation_run_at", self.library.names())

    def test_without_a_stream_it_is_torchs_current_one(self):
        operation = self.make()
        torch = mock.Mock()
        torch.cuda.current_stream.return_value.cuda_stream = 99
        with mock.patch.dict("sys.modules", torch=torch):
            operation.run()
        torch.cuda.current_stream.assert_called_once_with(0)
        with mock.patch.dict("sys.modules"):
            operations.sys.modules.pop("torch", None)
            operation.run()
        self.assertEqual([call[3] for call in self.library.calls if call[0] == "operation_run"],
                         [99, 0])

    def test_schedules_and_buckets(self):
        operation = self.make()
        operation.prepare(64)
        self.assertEqual(operation.schedule(), "tiles of 256")
        self.assertEqual(operation.schedule(64), "tiles of 64")
        with self.assertRaisesRegex(ValueError, "whole number"):
            operation.prepare("64")

    def test_a_context_closes_what_is_left_the_last_first(self):
        first, second, third = self.make(), self.make(), self.make()
        second.close()
        second.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            second.run(1)
        with self.context:
            pass
        self.context.close()
        with self.assertRaisesRegex(ValueError, "context is closed"):
            self.make()
        with self.assertRaisesRegex(ValueError, "context is None; a stretto.Context"):
            stretto.Operation(None, "gemm-rs", n=8, k=8, max_rows=8)
        names = self.library.names()
        self.assertEqual(names.count("operation_close"), 3)
        self.assertEqual(names[-1], "context_close")
        self.assertEqual(names.count("context_close"), 1)
        del first, third

    def test_an_error_leaves_the_block_without_a_collective(self):
        with self.assertRaises(KeyError):
            with self.context, self.make():
                raise KeyError
        self.assertNotIn("operation_close", self.library.names())
        self.assertNotIn("context_close", self.library.names())

    def test_one_that_was_refused_is_not_the_contexts(self):
        self.library.refusal = ("operation_make", RuntimeError("no memory"))
        with self.assertRaisesRegex(RuntimeError, "no memory"):
            self.make()
        self.context.close()
        self.assertNotIn("operation_close", self.library.names())


class Tensors(unittest.TestCase):
    def refusal(self, tensor):
        with self.assertRaises(ValueError) as caught:
            address_of(tensor, "a", (256, 512), "bf16", 1)
        return str(caught.exception)

    def test_good_ones_are_taken(self):
        for tensor in (Tensor(256, 512, device="cuda:1"), Tensor(300, 512, device="cuda:1")):
            self.assertEqual(address_of(tensor, "a", (256, 512), "bf16", 1), 1 << 20)

    def test_others_are_refused_by_what_is_wrong(self):
        on = {"device": "cuda:1"}
        self.assertIn("[256 or more, 512]", self.refusal(Tensor(255, 512, **on)))
        self.assertIn("(256, 511)", self.refusal(Tensor(256, 511, **on)))
        self.assertIn("torch.float32", self.refusal(Tensor(256, 512, dtype="torch.float32", **on)))
        self.assertIn("contiguous", self.refusal(Tensor(256, 512, strides=(1, 256), **on)))
        self.assertIn("contiguous", self.refusal(Tensor(256, 512, strides=(1024, 1), **on)))
        self.assertIn("cuda:1", self.refusal(Tensor(256, 512, device="cuda:0")))
        self.assertIn("cuda:1", self.refusal(Tensor(256, 512, device="cpu")))
        self.assertIn("16 bytes", self.refusal(Tensor(256, 512, address=(1 << 20) + 2, **on)))
        self.assertIn("list", self.refusal([1, 2]))

    def test_a_lent_tensor_says_what_dlpack_asks(self):
        values = (ctypes.c_uint16 * 6)()
        tensor = stretto.GpuTensor(ctypes.addressof(values), (2, 3), "bf16", 1)
        self.assertEqual(tensor.__dlpack_device__(), (2, 1))
        capsule = tensor.__dlpack__(stream=1)
        at = ctypes.pythonapi.PyCapsule_GetPointer
        at.restype, at.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        managed = DLManagedTensor.from_address(at(capsule, b"dltensor"))
        del tensor
        seen = managed.dl_tensor
        self.assertEqual((seen.data, seen.ndim, seen.byte_offset), (ctypes.addressof(values), 2, 0))
        self.assertEqual((seen.dtype.code, seen.dtype.bits, seen.dtype.lanes), (4, 16, 1))
        self.assertEqual((seen.shape[0], seen.shape[1], seen.strides[0], seen.strides[1]),
                         (2, 3, 3, 1))
        self.assertIsNone(managed.deleter)

    def test_a_lent_tensor_is_neither_copied_nor_moved(self):
        values = (ctypes.c_uint16 * 6)()
        tensor = stretto.GpuTensor(ctypes.addressof(values), (2, 3), "bf16", 1)
        self.assertIsNotNone(tensor.__dlpack__(dl_device=(2, 1), copy=False))
        with self.assertRaisesRegex(BufferError, "lent, not copied"):
            tensor.__dlpack__(copy=True)
        with self.assertRaisesRegex(BufferError, "stays on GPU 1"):
            tensor.__dlpack__(dl_device=(2, 0))


class WithoutAGpu(unittest.TestCase):
    def test_launchers_that_make_no_sense_are_value_errors(self):
        with mock.patch.dict(os.environ, RANK="3", WORLD_SIZE="2"):
            with self.assertRaisesRegex(ValueError, "ranks of a job of 2 are 0 to 1"):
                stretto.Context()
        with self.assertRaisesRegex(ValueError, "at most 3600"):
            stretto.Context(timeout_s=0)

    def test_a_missing_gpu_is_a_runtime_error(self):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            with self.assertRaisesRegex(RuntimeError, "no CUDA driver"):
                stretto.Context()
        else:
            self.skipTest("there is a CUDA driver")


if __name__ == "__main__":
    unittest.main()
