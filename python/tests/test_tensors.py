"""Tensors of a call: what has an array interface or speaks DLPack, and what is refused."""

import ctypes
import unittest
from unittest import mock

from fakes import CpuTensor, Tensor
from stretto.tensors import (CAPSULE_NAME, DLDataType, DLDevice, DLManagedTensor, DLTensor, on_gpu,
                             view_of)


class Interface:
    """An array that numpy's interface describes, or CUDA's."""

    def __init__(self, name, **words):
        setattr(self, name, {"shape": (4, 8), "typestr": "<f2", "data": (4096, False), **words})


class Lent:
    """What speaks DLPack only."""

    def __init__(self, shape, strides=None, device=(2, 1), kind=(4, 16), lanes=1):
        self.device = device
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = DLManagedTensor(
            DLTensor(4096, DLDevice(*device), len(shape), DLDataType(*kind, lanes), self.sizes, self.steps,
                     16), None, None)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), CAPSULE_NAME, None)


class Tensors(unittest.TestCase):
    def seen(self, tensor):
        view = view_of(tensor, "a")
        return view.address, view.rows, view.cols, view.row_stride, view.dtype, view.device

    def test_what_has_an_array_interface(self):
        self.assertEqual(self.seen(Interface("__cuda_array_interface__")),
                         (4096, 4, 8, 8, "fp16", "cuda:None"))
        self.assertEqual(self.seen(Interface("__array_interface__", strides=(32, 2))),
                         (4096, 4, 8, 16, "fp16", "cpu"))
        self.assertEqual(self.seen(Interface("__array_interface__", typestr="<V2"))[4], "bf16")
        on_gpu(Interface("__cuda_array_interface__"), "a", 1)  # the driver has never heard of it

    def test_arrays_on_another_gpu(self):
        """CUDA's interface names no GPU: the driver does, and what speaks DLPack, too."""
        array = Interface("__cuda_array_interface__")
        with mock.patch("stretto.tensors.gpu_of", lambda address: 3):
            self.assertEqual(on_gpu(array, "a", 3).device, "cuda:3")
            with self.assertRaisesRegex(ValueError, "a is on cuda:3; this rank's GPU is cuda:0"):
                on_gpu(array, "a", 0)
        array.__dlpack_device__ = lambda: (2, 1)
        with self.assertRaisesRegex(ValueError, "a is on cuda:1; this rank's GPU is cuda:0"):
            on_gpu(array, "a", 0)

    def test_arrays_that_are_read_only_are_no_outputs(self):
        view = view_of(Interface("__array_interface__", data=(4096, True)), "out")
        view.require("out", (4, 8), "fp16")
        with self.assertRaisesRegex(ValueError, "out is an output, and this array is read-only: give a copy"):
            view.require("out", (4, 8), "fp16", True)

    def test_what_speaks_dlpack(self):
        self.assertEqual(self.seen(Lent((2, 3, 8))), (4112, 6, 8, 8, "bf16", "cuda:1"))
        self.assertEqual(self.seen(Lent((4, 8), (20, 1), (1, 0), (2, 32))),
                         (4112, 4, 8, 20, "fp32", "cpu"))

    def test_what_leads_the_columns_counts_as_rows(self):
        self.assertEqual(self.seen(CpuTensor((2, 3, 8), gap=4))[1:4], (6, 8, 12))
        self.assertEqual(self.seen(CpuTensor((8,)))[1:4], (1, 8, 8))
        self.assertEqual(self.seen(CpuTensor((5, 1)))[1:4], (5, 1, 1))
        self.assertEqual(self.seen(CpuTensor((0, 8)))[1:4], (0, 8, 8))

    def test_others_are_refused_by_what_is_wrong(self):
        for tensor, says in ((Tensor(256, 512, strides=(1, 256)), "a has gaps inside its rows.*contiguous"),
                             (Lent((2, 3, 8), (100, 8, 1)), "contiguous"),
                             (Lent((4, 8), (0, 1)), "a has the same memory for all of its rows.*contiguous"),
                             (Lent((2, 3, 8), (0, 0, 1)), "the same memory for all of its rows"),
                             (Lent(()), "a single number"),
                             (Lent((4, 8), lanes=2), "a has elements of 2 numbers each; one is needed"),
                             (Interface("__array_interface__", strides=(33, 2)), "no multiples"),
                             ([1, 2], "a is a list: it has neither data_ptr")):
            with self.assertRaisesRegex(ValueError, says):
                view_of(tensor, "a")
        with self.assertRaisesRegex(ValueError, "a is on cuda:1; this rank's GPU is cuda:0"):
            on_gpu(Lent((4, 8)), "a", 0)


if __name__ == "__main__":
    unittest.main()
