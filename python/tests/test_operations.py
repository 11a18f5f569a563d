"""Operations: what reaches the library, in which order."""

import pathlib
import tempfile
import types
import unittest
from unittest import mock

import stretto
from fakes import CpuTensor, Tensor
from on_a_fake_gpu import OnAFakeGpu
from stretto import operations


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


if __name__ == "__main__":
    unittest.main()
