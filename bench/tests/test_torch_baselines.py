"""torch_baselines.py from its command line to its file, without PyTorch and without a GPU: who is measured, who
failed, and what a job that was started again keeps."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

from bench.tests import fake_torch

TORCH = fake_torch.install()

from bench.contests import torch_baselines, torch_contestants  # noqa: E402

SHAPES = "ag-gemm m=512 n=512 k=512\ngemm-rs m=512 n=512 k=512  # rows\n\ngemm-ar m=512 n=512 k=512\n"
PYTORCHS = {"gemm_us", "nccl_us", "sequential_us", "fused_us"}


def stretto(finish=lambda: None, context=None):
    """The binding, as far as the script calls it."""
    class Operation:
        def __init__(self, *arguments, **words):
            Operation.made = (arguments, words)

        def run(self, tensors):
            Operation.tensors = tensors

        def schedule(self):
            return "tiles"

        def close(self):
            Operation.closed = True

    Operation.finish = lambda self: finish()
    return types.SimpleNamespace(version=lambda: "1.2.3", Context=context or mock.Mock(),
                                 Operation=Operation)


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "torch.json"
        (self.folder / "shapes.txt").write_text(SHAPES)
        self.error = 1e-3
        for patch in (mock.patch.object(torch_contestants, "relative_error", lambda *_: self.error),
                      mock.patch.object(torch_contestants, "MOST_WAIT_S", 0),
                      mock.patch.object(os, "_exit", side_effect=SystemExit)):
            patch.start()
            self.addCleanup(patch.stop)

    def run_script(self, binding, restarts=0, turn="0"):
        arguments = ["torch_baselines.py", "--shapes", str(self.folder / "shapes.txt"), "--out",
                     str(self.out), "--rounds", "3", "--turn", turn, "--commit", "abc"]
        environment = {"LOCAL_RANK": "0", "TORCHELASTIC_RESTART_COUNT": str(restarts)}
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(os.environ, environment), \
                mock.patch.dict(sys.modules, stretto=binding), \
                contextlib.redirect_stdout(io.StringIO()) as self.said, \
                contextlib.redirect_stderr(self.said):
            torch_baselines.main()
        self.assertFalse(pathlib.Path(f"{self.out}.step").exists())
        return json.loads(self.out.read_text())

    def test_all_take_part_on_the_same_tensors(self):
        binding = stretto()
        result = self.run_script(binding)
        self.assertEqual(result["stretto"], {"version": "1.2.3", "rows": "fixed", "schedule": "auto"})
        self.assertEqual(result["commit"], "abc")
        self.assertRegex(result["date"], r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(len(result["rows"]), 3)
        for row in result["rows"]:
            self.assertLessEqual(PYTORCHS | {"stretto_us", "stretto_schedule"}, row.keys())
            self.assertEqual(row["stretto_us"], 125)
            self.assertEqual(row["stretto_error"], 1e-3)
            self.assertFalse([key for key in row if key.endswith("failed")])
        (_, kind), words = binding.Operation.made
        self.assertEqual((kind, words), ("gemm-ar", {"rows": "fixed", "m": 512, "n": 512, "k": 512}))
        self.assertEqual({name: one.shape for name, one in binding.Operation.tensors.items()},
                         {"a": (512, 512), "b": (512, 512), "out": (512, 512)})
        self.assertTrue(binding.Operation.closed)

    def test_long_turns_are_of_as_many_launches_as_take_so_long(self):
        result = self.run_script(stretto(), turn="10")
        self.assertEqual((result["rounds"], result["turn_ms"]), (3, 10))
        for row in result["rows"]:  # four launches in each half, and the fake clock says 1.25 ms of all
            self.assertEqual((row["gemm_us"], row["stretto_us"]), (31.25, 31.25))

    def test_turns_that_would_look_hung_are_refused(self):
        for turn in ("-1", "10001", "nan"):
            with self.assertRaisesRegex(SystemExit, "--turn must be from 0 to 10000 ms"):
                self.run_script(stretto(), turn=turn)

    def test_without_the_binding_pytorch_is_measured_and_the_reason_is_told(self):
        result = self.run_script(stretto(context=mock.Mock(side_effect=RuntimeError("no GPU"))))
        self.assertEqual(result["stretto"], {"absent": "no GPU"})
        self.assertIn("without Stretto: no GPU", self.said.getvalue())
        for row in result["rows"]:
            self.assertLessEqual(PYTORCHS, row.keys())
            self.assertNotIn("stretto_us", row)

    def test_a_time_out_of_stretto_does_not_end_the_others(self):
        calls = []

        def finish():
            calls.append(1)
            if len(calls) == 5:
                raise RuntimeError("rank 1 block 3 waited 5000 ms\nmore")
        rows = self.run_script(stretto(finish))["rows"]
        self.assertEqual(rows[0]["stretto_failed"], "rank 1 block 3 waited 5000 ms")
        self.assertLessEqual(PYTORCHS, rows[0].keys())
        self.assertNotIn("stretto_us", rows[0])
        self.assertIn("stretto_us", rows[1])
        self.assertIn("3 rows, 1 with a contestant that failed", self.said.getvalue())

    def test_a_refusal_of_pytorchs_does_not_end_the_others(self):
        fused = TORCH.ops.symm_mem.fused_matmul_reduce_scatter
        fused.side_effect = RuntimeError("not this shape")
        self.addCleanup(setattr, fused, "side_effect", None)
        rows = self.run_script(stretto())["rows"]
        self.assertEqual(rows[1]["fused_failed"], "not this shape")
        self.assertIn("stretto_us", rows[1])
        self.assertIn("fused_us", rows[2])

    def test_wrong_results_are_not_timed(self):
        self.error = 0.1
        for row in self.run_script(stretto())["rows"]:
            for label in ("sequential", "fused", "stretto"):
                self.assertIn("wrong results: a relative error of 1.0e-01", row[f"{label}_failed"])
            self.assertIn("gemm_us", row)

    def test_a_hung_gpu_ends_the_process_and_the_next_one_goes_on_without_the_guilty(self):
        hung = mock.Mock(side_effect=lambda: not TORCH.ops.symm_mem.fused_matmul_reduce_scatter.called)
        TORCH.ops.symm_mem.fused_matmul_reduce_scatter.reset_mock()
        with mock.patch.object(TORCH.cuda.Event.return_value, "query", hung):
            with self.assertRaises(SystemExit):
                self.run_script(stretto())
        self.assertEqual(len(json.loads(self.out.read_text())["rows"]), 1)
        rows = self.run_script(stretto(), restarts=1)["rows"]
        self.assertEqual(len(rows), 3)
        self.assertIn("the GPU did not come to an end", rows[1]["fused_failed"])
        self.assertLessEqual({"stretto_us", "sequential_us"}, rows[1].keys())
        self.assertIn("fused_us", rows[2])

    def test_a_job_that_begins_keeps_nothing_of_an_earlier_one(self):
        self.out.write_text(json.dumps({"rows": [{"operator": "of long ago"}]}))
        pathlib.Path(f"{self.out}.step").write_text("{}")
        rows = self.run_script(stretto())["rows"]
        self.assertEqual(len(rows), 3)
        self.assertTrue(rows[0]["operator"].startswith("ag-gemm m=512"))


if __name__ == "__main__":
    unittest.main()
