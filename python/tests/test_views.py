"""Looks at plans through the binding, with the library itself."""

import importlib.util
import pathlib
import re
import unittest

import stretto
from stretto import views

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include" / "stretto" / "c_views.h"
SIZES = {"m": 512, "n": 512, "k": 1024, "ranks": 4}


class Views(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = stretto.plan("gemm-rs", **SIZES, schedule="tiles")
        cls.simulation = stretto.simulate(cls.plan)

    def test_declare_the_headers_functions(self):
        header = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        declared = dict(re.findall(r"STRETTO_C_API int (stretto_\w+)\(([^)]*)\)", header))
        self.assertEqual(set(declared), set(views.FUNCTIONS))
        for name, arguments in declared.items():
            self.assertEqual(len(arguments.split(",")), len(views.FUNCTIONS[name]), name)

    def test_a_text_is_the_plan_it_was_printed_from(self):
        read = stretto.read_plan(self.plan.text())
        self.assertEqual(read.operator, "gemm-rs m=512 n=512 k=1024 ranks=4 dtype=bf16")
        self.assertEqual((read.schedule, read.ranks), (self.plan.schedule, 4))
        self.assertEqual(read.instructions, read.tasks + read.waits + read.notifies)
        self.assertEqual(stretto.simulate(read), self.simulation)
        self.assertAlmostEqual(self.simulation.total_us, self.plan.predicted_us)

    def test_spans_are_columns_of_the_timeline(self):
        spans, lanes = self.simulation.spans, self.simulation.lanes
        self.assertEqual(len({len(column) for column in spans.values()}), 1)
        self.assertAlmostEqual(max(spans["end_us"]), self.simulation.total_us)
        lines = self.plan.text().splitlines()
        waits = 0
        for i, op in enumerate(spans["op"]):
            self.assertTrue(lines[spans["line"][i] - 1].strip().startswith(op))
            self.assertGreaterEqual(spans["end_us"][i], spans["start_us"][i])
            if op == "wait":
                waits += 1
                self.assertGreater(spans["end_us"][i], spans["start_us"][i])
                self.assertLess(spans["released_by_lane"][i], len(lanes["kind"]))
            elif op == "gemm":
                self.assertEqual(spans["released_by_lane"][i], -1)
                self.assertGreater(spans["bytes"][i], 0)
        self.assertGreater(waits, 0)
        self.assertEqual(spans["op"].count("gemm"), sum(" gemm #" in line for line in lines))

    def test_busy_shares_add_up(self):
        busy = self.simulation.busy(rank=1, columns=100)
        self.assertIn("link", busy)
        spans, lanes = self.simulation.spans, self.simulation.lanes
        tiles = sum(end - start for lane, op, start, end in
                    zip(spans["lane"], spans["op"], spans["start_us"], spans["end_us"])
                    if op == "gemm" and lanes["rank"][lane] == 1)
        computing = sum(kind == "compute" and rank == 1 for kind, rank in zip(lanes["kind"], lanes["rank"]))
        self.assertAlmostEqual(sum(busy["compute"]) / 100 * self.simulation.total_us * computing, tiles, delta=0.01 * tiles)

    def test_the_critical_path_ends_the_run(self):
        path = self.simulation.critical_path
        self.assertAlmostEqual(path[0]["end_us"], self.simulation.total_us)
        self.assertTrue(all(step["why"] for step in path))

    def test_problems_have_their_lines(self):
        self.assertEqual(stretto.check_plan(self.plan), [])
        broken = re.sub(r"\n  wait [^\n]*", "", self.plan.text(), count=1)
        problems = stretto.check_plan(broken)
        self.assertEqual(problems[0].kind, "read-before-write")
        self.assertIn("reduce", broken.splitlines()[problems[0].line - 1])
        self.assertIn("should wait", problems[0].hint)

    def test_a_report_is_the_commands_page(self):
        page = stretto.report({"one </script>": self.plan, "two": self.plan.text()})
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertEqual(page.count("</script>"), 2)
        self.assertIn("gemm-rs m=512", page)
        self.assertIn("<!DOCTYPE html>", stretto.report(self.plan))
        self.assertIn("<!DOCTYPE html>", stretto.report([self.plan, self.plan]))

    def test_mistakes_are_value_errors_that_say_what_would_be_right(self):
        endless = re.sub(r"\n  notify [^\n]*", "", self.plan.text(), count=1)
        other = stretto.plan("ag-gemm", **SIZES, schedule="tiles")
        for work, says in ((lambda: stretto.read_plan("nonsense", "my.plan"), "my.plan:1:1: expected"),
                           (lambda: stretto.simulate(endless), "never"),
                           (lambda: stretto.simulate(self.plan, machine="h300"), "unknown machine"),
                           (lambda: stretto.simulate(5), "a string was expected"),
                           (lambda: stretto.report([]), "no plans"),
                           (lambda: stretto.report([self.plan, other]), "a report is on one operator")):
            with self.assertRaisesRegex(ValueError, says):
                work()

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib: nothing was plotted")
    def test_is_plotted(self):
        import matplotlib
        matplotlib.use("agg")
        axes = self.simulation.plot()
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["compute", "other", "link"])
        self.assertAlmostEqual(axes.get_xlim()[1], self.simulation.total_us)


if __name__ == "__main__":
    unittest.main()
