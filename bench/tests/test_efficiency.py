"""What the page on efficiency makes of results: floors, bars, and which run a row is of."""

import pathlib
import unittest

from bench.report import efficiency, expert_bars, history, write

EXPERTS = "{} t={} h={} f={} experts={} k={} ranks=2 dtype=bf16"


def found_of(operator, took, products=None, link_bytes=0):
    us = {"stretto": [took] * 3, **({"products": [products] * 3} if products else {})}
    row = {"operator": operator, "link_bytes": link_bytes, "us": us}
    return efficiency.Found(row, took, products, link_bytes, "any.json")


class Floors(unittest.TestCase):
    def check(self, operator, multiplying, memory, link):
        floors = efficiency.expert_floors({"operator": operator})
        self.assertEqual([round(us) for us in floors], [multiplying, memory, link], operator)

    def test_of_layers_of_experts_on_two_ranks(self):
        self.check(EXPERTS.format("moe-tp-up", 8192, 4096, 1536, 128, 8), 1071, 434, 88)
        self.check(EXPERTS.format("moe-tp-down", 8192, 4096, 1536, 128, 8), 535, 237, 88)
        self.check(EXPERTS.format("moe-tp-down", 8192, 4096, 14336, 8, 2), 1249, 188, 88)
        self.check(EXPERTS.format("moe-tp", 8192, 4096, 1536, 128, 8), 1606, 671, 177)
        self.check(EXPERTS.format("moe-ep", 2048, 7168, 2048, 64, 8), 937, 761, 77)

    def test_links_of_more_ranks_are_slower(self):
        self.assertEqual([efficiency.link_rate(ranks) for ranks in (1, 2, 3, 4, 6, 8, 72)],
                         [380, 380, 380, 340, 340, 320, 320])

    def test_of_others_are_products_or_the_link(self):
        mlp = "mlp m=64 h=32 f=16 ranks=2 dtype=bf16"
        self.assertEqual(efficiency.floor_of(found_of(mlp, 20, 8, 390_000)), 8)
        self.assertAlmostEqual(efficiency.floor_of(found_of(mlp, 20, 8, 3_900_000)), 10)
        self.assertIsNone(efficiency.floor_of(found_of(mlp, 20)))
        moved = "dispatch t=64 h=32 experts=8 k=2 ranks=2 dtype=bf16"
        self.assertAlmostEqual(efficiency.floor_of(found_of(moved, 20, None, 3_900_000)), 10)


class Bars(unittest.TestCase):
    def bar(self, operator):
        return efficiency.bar_of({"operator": operator})

    def test_stand_where_they_were_set(self):
        self.assertEqual(self.bar(EXPERTS.format("moe-tp-up", 64, 2048, 768, 128, 8)), 0.80)
        self.assertIsNone(self.bar(EXPERTS.format("moe-tp-up", 64, 2048, 192, 128, 8)))
        self.assertEqual(self.bar(EXPERTS.format("moe-tp-down", 2048, 4096, 1536, 128, 8)), 0.75)
        self.assertIsNone(self.bar(EXPERTS.format("moe-tp-down", 1024, 4096, 1536, 128, 8)))
        self.assertIsNone(self.bar(EXPERTS.format("moe-tp-down", 8192, 7168, 2048, 256, 8)))
        self.assertEqual(self.bar(EXPERTS.format("moe-ep", 2048, 7168, 2048, 64, 8)), 0.75)
        self.assertIsNone(self.bar(EXPERTS.format("moe-ep", 2046, 7168, 2048, 64, 8)))
        self.assertIsNone(self.bar(EXPERTS.format("moe-ep", 2048, 7168, 2048, 256, 8)))
        self.assertIsNone(self.bar(EXPERTS.format("moe-ep", 2048, 512, 384, 24, 3)))
        self.assertEqual(self.bar("gemm-a2a m=4096 n=6144 k=4096 ranks=2 dtype=bf16"), 0.85)
        self.assertIsNone(self.bar("a2a-gemm m=4095 n=4096 k=4096 ranks=2 dtype=bf16"))
        self.assertIsNone(self.bar("mlp m=4096 h=4096 f=14336 ranks=2 dtype=bf16"))

    def test_a_row_says_whether_it_meets_its_own(self):
        a2a = "gemm-a2a m=4096 n=6144 k=4096 ranks=2 dtype=bf16"
        self.assertEqual(efficiency.verdict(found_of(a2a, 100, 85)), ["85", "100", "0.85", "0.85", "yes", "`any`"])
        self.assertEqual(efficiency.verdict(found_of(a2a, 100, 84))[2:5], ["0.84", "0.85", "no"])
        group = [found_of(a2a, 100, 84), found_of(a2a, 100, 90),
                 found_of("gemm-a2a m=64 n=6144 k=4096 ranks=2 dtype=bf16", 100, 10)]
        self.assertEqual(efficiency.summary_row("gemm-a2a", group),
                         ["`gemm-a2a`", "3", "0.42 (0.10)", "0.85", "1 of 2", "0.87 (0.84)"])

    def test_what_kernels_alone_would_reach_stands_beside_experts(self):
        rates = expert_bars.Rates([])
        rates.bytes, rates.by_rows = 1e12, [(1, 2 * efficiency.TFLOPS * 1e6)]  # twice as fast as the floor says
        found = found_of(EXPERTS.format("moe-ep", 2048, 7168, 2048, 64, 8), 1000)
        line = efficiency.experts_table([found], rates).splitlines()[-1]
        self.assertIn("| dsv3 eighth | 937 | 761 | 77 | 2.00 | 2.00 | 937 | 1000 | 0.94 | 0.75 | yes |", line)


class Runs(unittest.TestCase):
    def test_a_row_is_of_its_last_run(self):
        row = {"operator": "mlp m=64 h=32 f=16 ranks=2 dtype=bf16", "link_bytes": 1,
               "us": {"products": [8.0], "stretto": [20.0]}}
        failed = {**row, "us": {"products": [8.0]}}
        old, new = (lambda date, rows: {"benchmark": "layers", "machine": "GPU", "ranks": 2, "date": date, "rows": rows},
                    {**row, "us": {"products": [8.0], "stretto": [10.0]}})
        results = [(pathlib.Path("c.json"), old("2026-01-03", [failed])), (pathlib.Path("b.json"), old("2026-01-02", [new])),
                   (pathlib.Path("a.json"), old("2026-01-01", [row]))]
        found = efficiency.newest(results)
        self.assertEqual([(one.us, one.file) for one in found.values()], [(10.0, "b.json")])
        text, = efficiency.efficiency_sections(results, expert_bars.Rates([]))
        self.assertIn("## Efficiency of layers, 2 x GPU", text)
        self.assertIn("| m=64 h=32 f=16 | 8 | 0 | 8 | 10 | 0.80 | - | - | `b` |", text)

    def test_runs_of_one_day_that_share_a_row_have_an_order(self):
        days = {}
        for path, result in write.load_results():
            if result["benchmark"] == "layers" or efficiency.is_of_graphs(result):
                days.setdefault(result["date"], []).append((path.name, {key for key, _ in efficiency.measured(path, result)}))
        for day, files in days.items():
            listed = history.RUNS_OF_A_DAY.get(day, ())
            late = [(name, rows) for name, rows in files if name not in listed]
            for i, (name, rows) in enumerate(late):
                for other, more in late[i + 1:]:
                    self.assertFalse(rows & more, f"{name} and {other}: add both to RUNS_OF_A_DAY in their order")
            self.assertLessEqual(set(listed), {name for name, _ in files}, day)


if __name__ == "__main__":
    unittest.main()
