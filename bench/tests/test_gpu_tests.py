"""What logs of GPU tests come to, and the page of their records."""

import contextlib
import io
import json
import os
import tempfile
import unittest

from bench.verify import gpu_tests

LOG = """Note: Google Test filter = *Gpu*
[==========] Running 6 tests from 3 test suites.
[ RUN      ] Gpu/PresetsOnGpus.AreRight/0_ag_gemm
[       OK ] Gpu/PresetsOnGpus.AreRight/0_ag_gemm (1500 ms)
[ RUN      ] Gpu/PresetsOnGpus.AreRight/1_ag_gemm
a text of the test
[  FAILED  ] Gpu/PresetsOnGpus.AreRight/1_ag_gemm, where GetParam() = ag-gemm m=4 (700 ms)
[ RUN      ] RankOfPlans.LosesAPeerInsideARun
[ RUN      ] FaultsOnGpus.AreNamed
tests/skip.h:9: Skipped
[  SKIPPED ] FaultsOnGpus.AreNamed (0 ms)
[ RUN      ] FaultsOnGpus.Hang
"""
END = """[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] FaultsOnGpus.AreNamed
[  FAILED  ] Gpu/PresetsOnGpus.AreRight/1_ag_gemm, where GetParam() = ag-gemm m=4
"""


class GpuTests(unittest.TestCase):
    def record(self, *logs):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{i}.log") for i in range(len(logs))]
            for path, log in zip(paths, logs):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(log)
            out = os.path.join(folder, "out.json")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = gpu_tests.main(["record", *paths, "--gpus", "4", "--commit", "abc", "--date", "2026-01-02",
                                       "--out", out])
            with open(out, encoding="utf-8") as file:
                return code, said.getvalue(), json.load(file)

    def test_every_end_is_counted_once(self):
        code, said, found = self.record(LOG + END)
        self.assertEqual(code, 1)
        self.assertEqual(said, "cut_off: FaultsOnGpus.Hang\nfailed: Gpu/PresetsOnGpus.AreRight/1_ag_gemm\n")
        self.assertEqual(found["suites"], {
            "FaultsOnGpus": {"passed": 0, "failed": 0, "skipped": 1, "cut_off": 1, "seconds": 0},
            "PresetsOnGpus": {"passed": 1, "failed": 1, "skipped": 0, "cut_off": 0, "seconds": 2.2}})

    def test_what_ran_again_counts_as_it_then_ended(self):
        again = "[ RUN      ] FaultsOnGpus.Hang\n[       OK ] FaultsOnGpus.Hang (90 ms)\n"
        again += LOG.split("a text")[0].rsplit("\n", 2)[0] + "\n"
        mended = "[ RUN      ] Gpu/PresetsOnGpus.AreRight/1_ag_gemm\n[       OK ] Gpu/PresetsOnGpus.AreRight/1_ag_gemm (6 ms)\n"
        code, said, found = self.record(LOG, again, mended)
        self.assertEqual((code, said), (0, ""))
        self.assertEqual(found["suites"]["FaultsOnGpus"]["passed"], 1)
        self.assertEqual(found["suites"]["PresetsOnGpus"]["passed"], 2)

    def test_a_log_without_tests_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no test in it"):
            self.record("[==========] 0 tests ran.\n")

    def test_the_page_has_a_column_for_each_machine(self):
        self.assertIn("No record yet.", gpu_tests.page_of([]))
        _, _, four = self.record(LOG)
        eight = {**four, "gpus": 1, "ranks_a_gpu": 8, "suites": {"Serve": four["suites"]["FaultsOnGpus"]}}
        page = gpu_tests.page_of([eight, four])
        self.assertIn("| suite | 4 x NVIDIA H200 | 1 x NVIDIA H200, 8 ranks each |\n", page)
        self.assertIn("| `PresetsOnGpus` | 1, 1 failed (abc) | - |\n", page)
        self.assertIn("| `Serve` | - | 0, 1 skipped, 1 cut off (abc) |\n", page)

    def test_a_cell_has_the_run_with_most_passed_and_the_last(self):
        _, _, first = self.record(LOG)
        suite = first["suites"]["PresetsOnGpus"]
        most = {**first, "date": "2026-01-03", "commit": "def", "suites": {"PresetsOnGpus": {**suite, "passed": 9}}}
        last = {**first, "date": "2026-01-04", "commit": "eff", "suites": {"PresetsOnGpus": {**suite, "failed": 0}}}
        page = gpu_tests.page_of([last, first, most])
        self.assertIn("| `PresetsOnGpus` | 9, 1 failed (def); 1 (eff) |\n", page)

    def test_the_page_names_what_did_not_end_well_and_where_it_has_passed(self):
        _, _, bad = self.record(LOG)
        good = {**bad, "commit": "def", "suites": {"PresetsOnGpus": {**bad["suites"]["PresetsOnGpus"], "failed": 0}}}
        lines = list(gpu_tests.bad_ends([bad, good]))
        self.assertEqual(lines, [
            "- `FaultsOnGpus`, 4 x NVIDIA H200 (abc, 2026-01-02): 1 skipped, 1 cut off (`FaultsOnGpus.Hang`). "
            "No record has all of them passing.",
            "- `PresetsOnGpus`, 4 x NVIDIA H200 (abc, 2026-01-02): 1 failed (`Gpu/PresetsOnGpus.AreRight/1_ag_gemm`). "
            "All passed at def, 2026-01-02."])

    def test_the_page_is_what_the_records_say(self):
        self.assertEqual(gpu_tests.main(["page", "--check"]), 0)


if __name__ == "__main__":
    unittest.main()
