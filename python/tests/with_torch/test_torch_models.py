"""The benchmark of whole models, small and on CPUs: what it would measure on GPUs works, and its numbers are right."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ranks  # noqa: F401  (PyTorch, or no tests)

import torch

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
OURS = {"stretto eager", "stretto-rows eager", "stretto-norm eager", "stretto-mlp eager", "stretto-mlp-norm eager",
        "stretto-mlp-rows eager"}
FLOORS = {"alone eager", "alone-rows eager"}  # which communicate nothing, and so have no right numbers
DEALT = {"nccl-rows eager", "stretto-rows eager", "stretto-mlp-rows eager", "alone-rows eager"}
HAS_GROUPED_ATTENTION = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


@unittest.skipUnless(HAS_GROUPED_ATTENTION, "attention of grouped heads came with PyTorch 2.5")
class Models(unittest.TestCase):
    def measured(self, count, *options, code=0):
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(count)] if count > 1 else []
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, *launcher, str(BENCH / "models" / "models.py"), "--cpu", "--models", "tiny", "--modes", "eager",
                 "--rounds", "2", "--repeats", "1", "--context", "8", "--out", folder, *options], text=True,
                capture_output=True, timeout=200, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, code, done.stderr[-3000:])
            return done, code or json.loads((pathlib.Path(folder) / "models.json").read_text())

    def test_every_way_has_the_numbers_of_one_rank_in_fp32(self):
        _, found = self.measured(2, "--prefill", "8", "--decode", "2", "--train", "8")
        self.assertEqual([row["kind"] for row in found["rows"]], ["prefill", "decode", "train"])
        self.assertEqual(set(found["left_out"]), {"plain", "async-tp"})
        for row in found["rows"]:
            dealt = DEALT if row["kind"] == "decode" else set()
            self.assertEqual(set(row["ways"]), (OURS | FLOORS | {"nccl eager", "nccl-rows eager"}) - dealt)
            self.assertGreater(row["ratio"], 0)
            for label, way in row["ways"].items():
                with self.subTest(kind=row["kind"], way=label):
                    self.assertNotIn("failed", way)
                    self.assertGreater(way["us"], 0)
                    self.assertEqual("error" in way, label not in FLOORS)
                    self.assertLess(way.get("error", 0), 3e-2)
                    if row["kind"] != "train":
                        self.assertNotIn("not_served", way)

    def test_one_rank_beside_plain_layers(self):
        done, found = self.measured(1, "--prefill", "", "--decode", "1", "--train", "", "--ways", "plain,stretto")
        row, = found["rows"]
        self.assertEqual(set(row["ways"]), {"plain eager", "stretto eager"})
        self.assertLess(row["ways"]["stretto eager"]["error"], 3e-2)
        self.assertIn("decode: ", done.stdout)

    def test_what_is_not_known_is_refused(self):
        done, _ = self.measured(1, "--ways", "nccl,mpi", code=2)
        self.assertIn("--ways names 'mpi'; known: plain, alone, alone-rows, nccl", done.stderr)


if __name__ == "__main__":
    unittest.main()
