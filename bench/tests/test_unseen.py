"""Shapes that nothing is tuned on: the kept list is the script's, and what is measured on it is summed up."""

import json
import pathlib
import sys
import tempfile
import unittest

from bench.report import unseen_summary
from bench.shapes import unseen

BENCH = pathlib.Path(__file__).resolve().parents[1]


class Shapes(unittest.TestCase):
    def test_the_kept_list_is_what_the_script_prints(self):
        kept = [line for line in (BENCH / "shapes" / "unseen.txt").read_text(encoding="utf-8").splitlines()
                if not line.startswith("#")]
        self.assertEqual(kept, [f"{kind} m={m} n={n} k={k} ranks={ranks}  # {what}"
                                for kind, m, n, k, ranks, what in unseen.shapes()])

    def test_thirty_models_at_each_number_of_ranks(self):
        all_shapes = list(unseen.shapes())
        models = {what.split()[0] for *_, what in all_shapes}
        self.assertGreaterEqual(len(models), 30)
        self.assertEqual({ranks for *_, ranks, _ in all_shapes}, {2, 4, 8})
        rows = sorted(m for _, m, *_ in all_shapes)
        self.assertGreater(sum(m % 2 for m in rows), len(rows) // 4)
        self.assertTrue(1 <= rows[0] < 16 and 4096 < rows[-1] <= 16384)
        self.assertLess(abs(sum(m < 128 for m in rows) - len(rows) / 2), len(rows) / 6)  # log-uniform

    def test_on_fewer_gpus_each_multiplies_the_same(self):
        alone = {(kind, m, n, k) for kind, m, n, k, ranks, _ in unseen.shapes() if ranks == 2}
        local = list(unseen.on_gpus(2))
        self.assertTrue(alone <= {shape[:4] for shape in local})
        self.assertEqual(len(local), len(list(unseen.shapes())))
        mixed = list(unseen.mixed(local))
        self.assertEqual(sorted(mixed), sorted(local))
        for part in (mixed[:30], mixed[30:60]):
            self.assertEqual({kind for kind, *_ in part}, {"ag-gemm", "gemm-rs", "gemm-ar"})
            self.assertTrue(5 < sum(m >= 2048 for _, m, *_ in part) < 25, part)
        of_eight = [one for one in unseen.shapes() if one[4] == 8]
        self.assertEqual(len(list(unseen.on_gpus(8))), len(of_eight))


class Summary(unittest.TestCase):
    OPERATOR = "gemm-rs m={} n=64 k=64 ranks=2 dtype=bf16"

    def test_regret_is_against_the_sweep_and_ratios_against_pytorch(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)

            def write(file, **content):
                (folder / file).write_text(json.dumps(content), encoding="utf-8")
            small, large = self.OPERATOR.format(7), self.OPERATOR.format(5000)
            write("unseen_tuning.json", operators=[
                {"operator": small, "library_us": 20, "measured": [{"time_us": 10}, {"time_us": 12}]},
                {"operator": large, "library_us": 200, "measured": [{"time_us": 100}]}])
            write("unseen.json", rows=[
                {"operator": small, "sequential_us": 22, "strategies": [{"strategy": "auto", "time_us": 11}]},
                {"operator": large, "sequential_us": 200, "strategies": [{"strategy": "auto", "time_us": 120}]},
                {"operator": self.OPERATOR.format(16), "floor_us": 3, "strategies": [{"strategy": "auto", "time_us": 4}]},
                {"operator": self.OPERATOR.format(17), "problem": "no memory", "strategies": []}])
            write("unseen_torch.json", rows=[
                {"operator": small, "sequential_us": 30, "fused_us": 9, "stretto_us": 10},
                {"operator": large, "failed": "no memory"}])
            lines = "\n".join(unseen_summary.lines_of(folder))
        self.assertIn("| gemm-rs M < 2048 | 1 | 0.0 % | 0.0 % | yes |", lines)
        self.assertIn("| gemm-rs M >= 2048 | 1 | 20.0 % | 20.0 % | no |", lines)
        self.assertIn("| gemm-rs M < 2048 | 1 | 3.00 (3.00) | - | 0.90 (0.90) | - |", lines)
        self.assertIn("| gemm-rs | 1 | 0.75 (0.75) | 0.80 |", lines)


if __name__ == "__main__":
    unittest.main()
