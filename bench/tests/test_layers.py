"""layers.py from its command line to its file, without PyTorch and without a GPU: who takes part, who failed, and when
the time is over."""

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
sys.modules.update({"triton": mock.MagicMock(name="triton"), "triton.language": mock.MagicMock()})

from bench.contests import contest, layers, torch_contestants, torch_job  # noqa: E402
from bench.rivals import path_base  # noqa: E402

SHAPES = "mlp m=8 h=16 f=32  # a comment\nlayer m=8 h=16 f=32 heads=4 kv-heads=2 head-dim=8\n"


class Paths(path_base.Paths):
    """An operator of which nothing is computed."""

    schedules = ("auto", "split=2/tiles")
    wrong = None  # raised by a sequence

    def __init__(self, place, m, h, f, **more):
        self.sizes, out = {"m": m, "h": h, "f": f, **more}, fake_torch.Tensor(8, 16)
        self.inputs, self.outputs, self.result = {"x": out}, {"y": out}, "y"
        self.place, self.moved, self.times_moved = place, (8, 16), 2
        self.call = lambda: out

    def reference(self):
        return fake_torch.Tensor(8, 16)

    def alone(self):
        return {"products": self.call}

    def sequence(self):
        if self.wrong:
            raise self.wrong
        return self.call()

    def theirs(self):
        return {"nccl": self.sequence}

    def parts(self):
        return {"up": ("ag-gemm", {"m": 8, "n": 16, "k": 4})}, lambda up: (up.run({}), self.call())[1]


def stretto(refused=()):
    class Operation:
        made, closed = [], 0

        def __init__(self, context, operator, rows, schedule, sizes):
            if schedule in refused:
                raise ValueError(f"{schedule} cannot serve this")
            Operation.made.append((operator, schedule, sizes))
            self.text = schedule

        def run(self, tensors):
            pass

        def finish(self):
            pass

        def schedule(self):
            return self.text

        def close(self):
            Operation.closed += 1
    return types.SimpleNamespace(version=lambda: "1.2.3", Context=mock.Mock(), Operation=Operation)


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "layers.json"
        (self.folder / "shapes.txt").write_text(SHAPES)
        for patch in (mock.patch.object(torch_contestants, "relative_error", lambda *_: 1e-3),
                      mock.patch.dict(layers.PATHS, {"mlp": Paths, "layer": Paths}),
                      mock.patch.object(Paths, "wrong", None)):
            patch.start()
            self.addCleanup(patch.stop)

    def run_script(self, binding, *more, restarts=0):
        arguments = ["layers.py", "--shapes", str(self.folder / "shapes.txt"), "--out", str(self.out), "--rounds", "3",
                     "--commit", "abc", *more]
        environment = {"LOCAL_RANK": "0", "TORCHELASTIC_RESTART_COUNT": str(restarts)}
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(os.environ, environment), \
                mock.patch.dict(sys.modules, stretto=binding), contextlib.redirect_stdout(io.StringIO()) as self.said:
            layers.main()
        return json.loads(self.out.read_text()) if self.out.exists() else None

    def test_every_contestant_of_a_row(self):
        binding = stretto()
        result = self.run_script(binding)
        self.assertEqual((result["benchmark"], result["commit"], len(result["rows"])), ("layers", "abc", 2))
        row = result["rows"][1]
        self.assertEqual(row["operator"], "layer m=8 h=16 f=32 heads=4 kv-heads=2 head-dim=8 ranks=1 dtype=bf16")
        labels = {"nccl", "stretto", "stretto parts", "stretto split=2/tiles"}
        self.assertEqual(set(row["us"]), labels | {"products"})
        self.assertEqual(row["errors"], dict.fromkeys(labels, 1e-3))
        self.assertEqual(row["us"]["nccl"], [125.0, 125.0, 125.0])
        self.assertEqual(row["schedules"], {"stretto": "auto", "stretto parts": "auto",
                                            "stretto split=2/tiles": "split=2/tiles"})
        self.assertEqual((row["failed"], row["link_bytes"]), ({}, 0))
        self.assertIn(("layer", "auto", {"m": 8, "h": 16, "f": 32, "heads": 4, "kv_heads": 2, "head_dim": 8}),
                      binding.Operation.made)
        self.assertEqual(binding.Operation.closed, len(binding.Operation.made))
        self.assertIn("2 rows, 0 with a contestant that failed", self.said.getvalue())

    def test_one_that_cannot_or_fails_does_not_end_the_others(self):
        Paths.wrong = TypeError("no such thing\nmore")
        row = self.run_script(stretto(refused=("split=2/tiles",)))["rows"][0]
        self.assertEqual(row["failed"], {"nccl": "TypeError: no such thing",
                                         "stretto split=2/tiles": "split=2/tiles cannot serve this"})
        self.assertEqual(set(row["us"]), {"products", "stretto", "stretto parts"})
        self.assertIn("2 rows, 2 with a contestant that failed", self.said.getvalue())

    def test_kernels_of_ours_and_of_the_fastest_other(self):
        event = lambda name, us: types.SimpleNamespace(key=name, self_device_time_total=us, count=20)  # noqa: E731
        profile = TORCH.profiler.profile.return_value.__enter__.return_value
        profile.key_averages.return_value = [event("short", 30.0), event("long", 500.0), event("on the host", 0)]
        rows = self.run_script(stretto(), "--kernels")["rows"]
        kernels = [["long", 50.0, 2.0], ["short", 3.0, 2.0]]
        self.assertEqual(rows[0]["kernels"], {"stretto": kernels, "nccl": kernels})

    def test_other_schedules_take_turns_with_the_row_s_own(self):
        rows = self.run_script(stretto(refused=("waves",)), "--beside", "library", "--beside", "waves")["rows"]
        self.assertEqual(set(rows[0]["us"]) - {"products", "nccl", "stretto parts"},
                         {"stretto", "stretto split=2/tiles", "stretto library"})
        self.assertEqual(rows[0]["failed"], {"stretto waves": "waves cannot serve this"})
        self.assertNotIn("kernels", rows[0])

    def test_no_row_begins_when_the_time_is_over(self):
        clock = iter(range(0, 10_000, 7))
        with mock.patch.object(contest.time, "time", lambda: next(clock)):
            self.run_script(stretto(), "--seconds", "10")
        self.assertIn("1 rows, 0 with a contestant that failed; 1 left out, for the time was over",
                      self.said.getvalue())

    def test_a_restarted_job_has_the_time_of_the_first(self):
        steps = contest.StepFile(f"{self.out}.step", True)
        steps.begun -= 100
        steps.note("mlp", "nccl", {})
        self.assertIsNone(self.run_script(stretto(), "--seconds", "50", restarts=1))
        self.assertIn("0 rows, 0 with a contestant that failed; 2 left out", self.said.getvalue())

    def test_what_is_no_operator_of_its_is_refused(self):
        (self.folder / "shapes.txt").write_text("mlp m=8 h=16\n")
        with self.assertRaisesRegex(SystemExit, r"shapes.txt:1: expected an operator with its sizes, one of: mlp m=\.\. "):
            self.run_script(stretto())

    def test_graphs_of_long_runs_have_fewer(self):
        self.assertEqual([torch_contestants.fewer_runs(30_000, us) for us in (1, 3000, 4900, 7000, 90_000)],
                         [10, 10, 6, 4, 2])
        self.assertEqual(torch_job.operator_text("mlp", {"m": 1}), "mlp m=1 ranks=1 dtype=bf16")


if __name__ == "__main__":
    unittest.main()
