"""What report.py and summary.py make of PyTorch's files: of old ones, and of those that have Stretto beside it."""

import unittest

import report
import summary

OPERATOR = "gemm-rs m={} n=8192 k=28672 ranks=4 dtype=bf16"
PYTORCHS = {"gemm_us": 10.0, "nccl_us": 20.0, "sequential_us": 30.0, "fused_us": 25.0}
OURS = {"stretto_us": 20.0, "stretto_low_us": 19.5, "stretto_high_us": 20.5}


def result_of(rows, **more):
    return {"benchmark": "torch", "commit": "abc", "machine": "GPU", "torch": "2.0", "ranks": 4, "rows": rows,
            **more}


class TorchFiles(unittest.TestCase):
    path = report.ROOT / "bench" / "results" / "torch.json"

    def test_an_old_file_has_no_section_and_its_times_are_found(self):
        result = result_of([{"operator": OPERATOR.format(512), **PYTORCHS},
                            {"operator": "gemm-rs m=3 n=4 k=5", "failed": "3 does not divide"}])
        self.assertEqual(report.beside_torch_section(self.path, result), [])
        found = summary.torch_times([(self.path, result)])
        self.assertEqual(list(found), [("GPU", 0, "gemm-rs", 512, 8192, 28672, 4)])

    def test_times_of_long_turns_stand_by_themselves(self):
        short = result_of([{"operator": OPERATOR.format(512), **PYTORCHS}])
        long = result_of([{"operator": OPERATOR.format(512), **PYTORCHS, "fused_us": 31.0}], turn_ms=100)
        found = summary.torch_times([(self.path, short), (self.path, long)])
        self.assertEqual({key[1]: row["fused_us"] for key, row in found.items()}, {0: 25.0, 100: 31.0})
        self.assertEqual((report.title("Rows", 4, short), report.turns(short)), ("## Rows, 4 x GPU", ""))
        self.assertEqual(report.title("Rows", 4, long), "## Rows, 4 x GPU, turns of 100 ms")
        self.assertIn("second half of a turn is timed", report.turns(long))

    def test_stretto_stands_beside_what_did_not_fail(self):
        failed = {key: value for key, value in PYTORCHS.items() if key != "fused_us"}
        result = result_of([{"operator": OPERATOR.format(512), **PYTORCHS, **OURS},
                            {"operator": OPERATOR.format(1024), **failed, "fused_failed": "no", **OURS},
                            {"operator": OPERATOR.format(2048), **PYTORCHS, "stretto_failed": "no"}],
                           stretto={"version": "1.2.3", "rows": "fixed", "schedule": "auto"})
        section, = report.beside_torch_section(self.path, result)
        self.assertIn("### gemm-rs: 1.50x PyTorch's NCCL and matmul, 1.25x its fused", section)
        self.assertIn("| 512 8192 28672 | 10.0 | 20.0 | 30.0 | 25.0 | 20.0 | 19.5–20.5 | 1.50 | 1.25 |", section)
        self.assertIn("| 1024 8192 28672 | 10.0 | 20.0 | 30.0 | failed | 20.0 | 19.5–20.5 | 1.50 | - |", section)
        self.assertNotIn("2048 8192", section)
        rows = [key[3] for key in summary.torch_times([(self.path, result)])]
        self.assertEqual(rows, [512, 2048])


if __name__ == "__main__":
    unittest.main()
