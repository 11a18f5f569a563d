"""Contexts and operations: what reaches the library, in which order, and which tensors are refused."""

import ctypes
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import stretto
from fakes import CpuTensor, Library, Tensor
from stretto import _library, contexts, operations, operators
from stretto.tensors import (CAPSULE_NAME, DLDataType, DLDevice, DLManagedTensor, DLTensor, on_gpu,
                             view_of)


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


class Contexts(OnAFakeGpu):
    def test_a_context_knows_its_rank(self):
        self.assertEqual((self.context.rank, self.context.ranks, self.context.gpu), (1, 2, 0))
        self.assertEqual(self.library.opened.timeout_s, 3.0)
        self.assertEqual(self.library.opened.ranks, 0)
        self.assertFalse(self.library.opened.exchange)

    def test_a_workspace_of_all_operations(self):
        self.assertEqual((self.library.opened.workspace_bytes, self.library.opened.workspace_grows), (0, 0))
        context = stretto.Context(workspace_bytes=1 << 33, workspace_grows=True)
        self.assertEqual((self.library.opened.workspace_bytes, self.library.opened.workspace_grows), (1 << 33, 1))
        self.assertEqual((context.workspace_bytes, self.make().workspace_bytes), (1 << 33, 1 << 20))
        for wrong, says in ((-1, "workspace_bytes is -1; bytes from 0 on"), ("2G", "whole number")):
            with self.assertRaisesRegex(ValueError, says):
                stretto.Context(workspace_bytes=wrong)
        context.close()
        with self.assertRaisesRegex(ValueError, "the context is closed"):
            context.workspace_bytes

    def test_sms_are_left_to_others(self):
        self.assertEqual(self.library.opened.free_sms, 0)
        stretto.Context(free_sms=8)
        self.assertEqual(self.library.opened.free_sms, 8)
        with self.assertRaisesRegex(ValueError, "free_sms is -1; SMs from 0 on were expected"):
            stretto.Context(free_sms=-1)

    def test_streams_are_the_callers_to_order_or_not(self):
        for given in (False, True):
            stretto.Context(orders_streams=given)
            self.assertEqual(self.library.opened.orders_streams, given)

    def exchange(self, gather, num_bytes=4):
        """What the library's call of the function returns, and leaves."""
        stretto.Context(rank=1, ranks=2, gpu=3, exchange=gather)
        opened = self.library.opened
        self.assertEqual((opened.rank, opened.ranks, opened.gpu), (1, 2, 3))
        everyone = ctypes.create_string_buffer(2 * num_bytes)
        status = opened.exchange(None, ctypes.c_char_p(b"mine"), everyone, num_bytes)
        return status, everyone.raw

    def test_ranks_meet_through_a_function(self):
        self.assertEqual(self.exchange(lambda mine: [b"zero", mine]), (0, b"zeromine"))

    def test_what_the_function_raises_stays_in_python(self):
        self.assertEqual(self.exchange(lambda mine: [b"too long", mine])[0], 1)
        self.assertEqual(self.exchange(lambda mine: 1 / 0)[0], 1)

        def refuse(request, _):
            self.assertEqual(request._obj.exchange(None, ctypes.c_char_p(b"mine"), None, 4), 1)
            raise RuntimeError("the exchange of the ranks failed: it returned 1")
        with mock.patch.object(Library, "_context_open", lambda _, *given: refuse(*given)):
            with self.assertRaises(ZeroDivisionError):
                stretto.Context(rank=0, ranks=2, exchange=lambda mine: 1 / 0)

    def test_half_a_job_is_refused(self):
        for words, says in (({"rank": 1}, "ranks is missing"), ({"gpu": 0}, "ranks is missing"),
                            ({"ranks": 0}, "ranks is 0"), ({"ranks": 2, "rank": -1}, "rank is -1"),
                            ({"ranks": "2"}, "whole number")):
            with self.assertRaisesRegex(ValueError, says):
                stretto.Context(**words)


class Operations(OnAFakeGpu):
    def test_an_operator_is_asked_for_with_the_contexts_ranks(self):
        operation = self.make(rows="fixed", schedule="tiles")
        self.assertEqual(self.library.made, (b"gemm-rs", None, b"m=256 n=512 k=1024", 2, b"bf16"))
        self.assertEqual((self.library.request.serves, self.library.request.schedule), (0, b"tiles"))
        self.assertEqual(self.library.request.measure_ms, 0)
        self.assertEqual(operation.max_rows, 256)
        self.assertEqual(list(operation.tensors), ["a", "b", "out"])
        self.assertEqual(operation.tensors["out"].shape, (128, 512))

    def test_a_budget_for_measuring_is_passed_on(self):
        for asked, passed in ((None, 0), (0, -1), (250, 250), (0.5, 0.5)):
            self.make(measure_ms=asked)
            self.assertEqual(self.library.request.measure_ms, passed)
        for wrong in (-1, "100", True, float("nan"), 60001):
            with self.assertRaisesRegex(ValueError, "measure_ms is .*from 0 to 60000"):
                self.make(measure_ms=wrong)

    def test_learning_says_what_is_left(self):
        operation = self.make()
        self.assertEqual((operation.learn(99), operation.learn(250.5)), (3, 0))
        self.assertIn(250.5, [call[2] for call in self.library.calls if call[0] == "operation_learn"])
        for wrong in ("100", True, None, -1, float("nan"), 3600001):
            with self.assertRaisesRegex(ValueError, "budget_ms is .*from 0 to 3600000"):
                operation.learn(wrong)

    def test_results_that_other_ranks_write(self):
        shared = self.context.empty_shared(128, 512)
        (_, _, num_bytes, _), = [call for call in self.library.calls if call[0] == "context_allocate_shared"]
        self.assertEqual(num_bytes, 128 * 512 * 2)
        operation = self.make(shared_results=True)
        self.assertEqual(self.library.request.shared_results, 1)
        operation(**{**self.tensors(), "out": shared})
        self.assertEqual(self.library.given[b"out"], (0x7000, 512))
        self.assertEqual(shared.__cuda_array_interface__, {
            "shape": (128, 512), "typestr": "<i2", "data": (0x7000, False), "strides": None, "version": 3})
        self.make()
        self.assertEqual(self.library.request.shared_results, 0)
        for sizes, says in (((0, 8), "rows=0 and cols=8"), ((2**40, 2**40), "no size"), (("8", 8), "whole number"),
                            ((8, 8, "fp8"), "dtype is 'fp8'; one of bf16, fp16")):
            with self.assertRaisesRegex(ValueError, says):
                self.context.empty_shared(*sizes)
        self.context.close()
        with self.assertRaisesRegex(ValueError, "context is closed"):
            self.context.empty_shared(8, 8)

    def test_tensors_come_with_the_call(self):
        operation = self.make()
        operation(**self.tensors())
        self.assertEqual(self.library.given, {b"a": (1 << 20, 512), b"b": (2 << 20, 512),
                                              b"out": (3 << 20, 512)})
        self.assertEqual(self.library.calls[-1][2], 256)
        # Fewer rows, as the tensors say, with gaps between them.
        fewer = {**self.tensors(100), "a": Tensor(100, 512, strides=(1024, 1))}
        operation(**fewer)
        self.assertEqual(self.library.calls[-1][2], 100)
        self.assertEqual(self.library.given[b"a"], (1 << 20, 1024))

    def test_tensors_that_do_not_fit_are_named(self):
        operation = self.make()
        for words, says in (({"a": Tensor(256, 500)}, "a has shape .256, 500."),
                            ({"out": Tensor(127, 512)}, "out has shape .127, 512.; .128, 512. is"),
                            ({"b": Tensor(512, 512, "torch.float16")}, "b is fp16; bf16 is needed"),
                            ({"b": Tensor(512, 512, device="cuda:1")}, "b is on cuda:1; .*cuda:0"),
                            ({"b": CpuTensor((512, 512))}, "b is on cpu"),
                            ({"a": 7}, "a is a int: it has neither")):
            with self.assertRaisesRegex(ValueError, says):
                operation.run({**self.tensors(), **words})
        self.assertNotIn("enqueue", self.library.names())

    def test_a_graph_of_several_products(self):
        mlp = stretto.Operation(self.context, "mlp", rows="fixed", m=64, h=32, f=64)
        mlp(x=Tensor(32, 32), wg=Tensor(32, 32), wu=Tensor(32, 32), wd=Tensor(32, 32),
            down=Tensor(32, 32))
        self.assertEqual(list(self.library.given), [b"x", b"wg", b"wu", b"wd", b"down"])

    def test_all_to_alls_and_look_ups(self):
        """Rank 1 of 2, which has fewer columns and tables."""
        heads = stretto.Operation(self.context, "gemm-a2a", rows="fixed", m=7, n=25, k=16)
        heads(a=Tensor(3, 16), b=Tensor(25, 16), out=Tensor(7, 9))
        with self.assertRaisesRegex(ValueError, r"out has shape .7, 16.; .7, 9. is"):
            heads(a=Tensor(3, 16), b=Tensor(25, 16), out=Tensor(7, 16))
        sums = stretto.Operation(self.context, "embedding-a2a", rows="fixed",
                                 sizes={"bags": 7, "tables": 3, "rows": 9, "dim": 8, "pool": 2})
        self.assertEqual({name: (info.held, info.shape, info.dtype) for name, info in sums.tensors.items()},
                         {"ids": ("cols", (7, 2), "i32"), "w": ("experts", (9, 8), "bf16"),
                          "out": ("rows", (3, 24), "bf16")})
        sums(ids=Tensor(7, 2, "torch.int32"), w=Tensor(9, 8), out=Tensor(3, 24))
        self.assertEqual(list(self.library.given), [b"ids", b"w", b"out"])

    def test_a_graph_of_a_file(self):
        text = ("# of mine\ngraph own m h f\ninput tokens [m, h] rows\ninput first [f, h] rows\n"
                "input second [h, f] cols\ninput scale [1, h] whole\np = gemm tokens first\na = silu p\n"
                "q = gemm a second\nnormed = norm q scale\noutput normed rows\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "own.graph"
            path.write_text(text)
            own = stretto.Operation(self.context, path, rows="fixed", m=64, h=32, f=64)
        own(tokens=Tensor(32, 32), first=Tensor(32, 32), second=Tensor(32, 32), scale=Tensor(1, 32),
            normed=Tensor(32, 32))
        self.assertEqual(list(self.library.given), [b"tokens", b"first", b"second", b"scale", b"normed"])
        self.assertTrue(self.library.made[1].startswith(b"# of mine\ngraph own"))

    def test_runs_take_rows_and_streams(self):
        class Stream:
            cuda_stream = 77
        operation = self.make()
        operation.run(self.tensors(), stream=Stream())
        operation.run(self.tensors(), 8, stream=5)
        operation.run({}, 0, stream=5)
        operation.run_at(self.tensors(), Tensor(1, 1, "torch.int32", address=4096), 64, stream=5)
        operation.run_at(self.tensors(), 8192, 64, stream=0)
        calls = [call for call in self.library.calls if call[0] in ("enqueue", "operation_run_at")]
        self.assertEqual([(call[2], call[-1]) for call in calls],
                         [(256, 77), (8, 5), (0, 5), (4096, 5), (8192, 0)])

    def test_row_counts_that_the_gpu_cannot_read_are_refused(self):
        operation = self.make()
        for rows, why in ((Tensor(1, 1, "torch.int64"), "one int32"),
                          (Tensor(1, 2, "torch.int32"), "one int32"),
                          (Tensor(1, 1, "torch.int32", device="cpu"), "cuda:0"),
                          (Tensor(1, 1, "torch.int32", device="cuda:1"), "cuda:0")):
            with self.assertRaisesRegex(ValueError, why):
                operation.run_at(self.tensors(), rows, 64, stream=5)
        self.assertNotIn("operation_run_at", self.library.names())

    def test_without_a_stream_it_is_torchs_current_one(self):
        operation = self.make()
        raw, torch = mock.Mock(return_value=98), mock.Mock()
        torch.cuda.current_stream.return_value.cuda_stream = 99
        for torch._C in (types.SimpleNamespace(_cuda_getCurrentRawStream=raw), types.SimpleNamespace()):
            with mock.patch.dict("sys.modules", torch=torch):
                operation(**self.tensors())
        raw.assert_called_once_with(0)
        torch.cuda.current_stream.assert_called_once_with(0)
        with mock.patch.dict("sys.modules"):
            operations.sys.modules.pop("torch", None)
            operation(**self.tensors())
        self.assertEqual([call[-1] for call in self.library.calls if call[0] == "enqueue"],
                         [98, 99, 0])

    def test_schedules_and_buckets(self):
        operation = self.make()
        operation.prepare(64)
        self.assertEqual(operation.schedule(), "tiles of 256")
        self.assertEqual(operation.schedule(64), "tiles of 64")
        self.assertEqual(operation.runs_per_graph(), 2)
        self.assertEqual(operation.error(), "rank 1 did not come")
        self.assertEqual(operation.copied_bytes(), 1 << 40)
        with self.assertRaisesRegex(ValueError, "whole number"):
            operation.prepare("64")

    def test_a_context_closes_what_is_left_the_last_first(self):
        first, second, third = self.make(), self.make(), self.make()
        second.close()
        second.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            second.run({}, 1)
        with self.context:
            pass
        self.context.close()
        with self.assertRaisesRegex(ValueError, "context is closed"):
            self.make()
        with self.assertRaisesRegex(ValueError, "context is None; a stretto.Context"):
            stretto.Operation(None, "gemm-rs", m=8, n=8, k=8)
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


class Interface:
    """An array that numpy's interface describes, or CUDA's."""

    def __init__(self, name, **words):
        setattr(self, name, {"shape": (4, 8), "typestr": "<f2", "data": (4096, False), **words})


class Lent:
    """What speaks DLPack only."""

    def __init__(self, shape, strides=None, device=(2, 1), kind=(4, 16)):
        self.device = device
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = DLManagedTensor(
            DLTensor(4096, DLDevice(*device), len(shape), DLDataType(*kind, 1), self.sizes, self.steps,
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
                             (Lent(()), "a single number"),
                             (Interface("__array_interface__", strides=(33, 2)), "no multiples"),
                             ([1, 2], "a is a list: it has neither data_ptr")):
            with self.assertRaisesRegex(ValueError, says):
                view_of(tensor, "a")
        with self.assertRaisesRegex(ValueError, "a is on cuda:1; this rank's GPU is cuda:0"):
            on_gpu(Lent((4, 8)), "a", 0)


class WithoutAGpu(unittest.TestCase):
    def test_launchers_that_make_no_sense_are_value_errors(self):
        with mock.patch.dict(os.environ, RANK="3", WORLD_SIZE="2"):
            with self.assertRaisesRegex(ValueError, "ranks of a job of 2 are 0 to 1"):
                stretto.Context()
        with self.assertRaisesRegex(ValueError, "at most 3600"):
            stretto.Context(timeout_s=0, ranks=1)

    def test_without_a_launcher_there_is_no_job_of_one(self):
        with self.assertRaisesRegex(ValueError, "no launcher has said .*torchrun.*ranks=1: alone"):
            stretto.Context()

    def test_a_missing_gpu_is_a_runtime_error(self):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            with self.assertRaisesRegex(RuntimeError, "no CUDA driver"):
                stretto.Context(ranks=1)
        else:
            self.skipTest("there is a CUDA driver")


if __name__ == "__main__":
    unittest.main()
