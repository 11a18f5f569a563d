"""What the sections of the pages on performance make of results, old and new, and of what failed."""

import pathlib
import unittest

from bench.report import pages, summary
from bench.report.sections import fused, graphs, grouped, layers, models, moe, one_rank

OPERATOR = "gemm-rs m={} n=8192 k=28672 ranks=4 dtype=bf16"
PYTORCHS = {"gemm_us": 10.0, "nccl_us": 20.0, "sequential_us": 30.0, "fused_us": 25.0}
OURS = {"stretto_us": 20.0, "stretto_low_us": 19.5, "stretto_high_us": 20.5}


def result_of(rows, **more):
    return {"benchmark": "torch", "commit": "abc", "machine": "GPU", "torch": "2.0", "ranks": 4, "rows": rows,
            **more}


class OneRankFiles(unittest.TestCase):
    def test_predictions_say_of_which_machine_they_are(self):
        result = {"benchmark": "bench", "of": "Look-ups", "machine": "GPU", "plans_for": "other", "commit": "abc",
                  "date": "2026-01-02", "data": "normal",
                  "rows": [{"operator": "embedding-a2a pool=4", "tiles_us": 135.0, "sequential_us": 134.0,
                            "read_gb": 0.134, "predicted_us": 48.1},
                           {"operator": "mlp m=8", "tiles_us": 7.0, "library_us": 9.0}]}
        section = one_rank.one_rank_section(pathlib.Path("bench/results/x.json"), result)
        self.assertIn("predicted for other, us", section)
        self.assertIn("| embedding-a2a pool=4 | 135.0 | 134.0 | - | - | 48.1 | 1.0 TB/s |", section)
        self.assertIn("| mlp m=8 | 7.0 | - | 9.0 | - | - | - |", section)


class TorchFiles(unittest.TestCase):
    path = pathlib.Path("bench/results/torch.json")

    def test_an_old_file_has_no_section_and_its_times_are_found(self):
        result = result_of([{"operator": OPERATOR.format(512), **PYTORCHS},
                            {"operator": "gemm-rs m=3 n=4 k=5", "failed": "3 does not divide"}])
        self.assertEqual(fused.beside_torch_section(self.path, result), "")
        found = summary.torch_times([(self.path, result)])
        self.assertEqual(list(found), [("GPU", 0, "gemm-rs", 512, 8192, 28672, 4)])

    def test_times_of_long_turns_stand_by_themselves(self):
        short = result_of([{"operator": OPERATOR.format(512), **PYTORCHS}])
        long = result_of([{"operator": OPERATOR.format(512), **PYTORCHS, "fused_us": 31.0}], turn_ms=100)
        found = summary.torch_times([(self.path, short), (self.path, long)])
        self.assertEqual({key[1]: row["fused_us"] for key, row in found.items()}, {0: 25.0, 100: 31.0})
        self.assertEqual((fused.title("Rows", short), fused.turns(short)), ("## Rows, 4 x GPU", ""))
        self.assertEqual(fused.title("Rows", long), "## Rows, 4 x GPU, turns of 100 ms")
        self.assertIn("second half of a turn is timed", fused.turns(long))

    def test_stretto_stands_beside_what_did_not_fail(self):
        failed = {key: value for key, value in PYTORCHS.items() if key != "fused_us"}
        result = result_of([{"operator": OPERATOR.format(512), **PYTORCHS, **OURS},
                            {"operator": OPERATOR.format(1024), **failed, "fused_failed": "no", **OURS},
                            {"operator": OPERATOR.format(2048), **PYTORCHS, "stretto_failed": "no"}],
                           stretto={"version": "1.2.3", "rows": "fixed", "schedule": "auto"})
        section = fused.beside_torch_section(self.path, result)
        self.assertIn("### gemm-rs: 1.50x PyTorch's NCCL and matmul, 1.25x its fused", section)
        self.assertIn("| 512 8192 28672 | 10.0 | 20.0 | 30.0 | 25.0 | 20.0 | 19.5–20.5 | 1.50 | 1.25 |", section)
        self.assertIn("| 1024 8192 28672 | 10.0 | 20.0 | 30.0 | failed | 20.0 | 19.5–20.5 | 1.50 | - |", section)
        self.assertNotIn("2048 8192", section)
        rows = [key[3] for key in summary.torch_times([(self.path, result)])]
        self.assertEqual(rows, [512, 2048])


class Models(unittest.TestCase):
    def test_the_best_of_both_sides(self):
        ways = {"nccl graph": {"us": 30.0, "error": 0.01}, "nccl compiled": {"us": 22.0}, "async-tp graph": {"failed": "no"},
                "stretto graph": {"us": 20.0, "error": 0.02}, "stretto-rows graph": {"us": 25.0}, "alone graph": {"us": 11.0}}
        result = {"commit": "abc", "machine": "GPU", "torch": "2.0", "ranks": 2, "context": 8, "rows": [
            {"model": "tiny", "kind": "decode", "rows": 4, "layers": 3, "ways": ways},
            {"model": "tiny", "kind": "train", "rows": 4, "layers": 3, "ways": {"stretto graph": {"failed": "no"}}}]}
        text = models.models_section("models.json", result)
        self.assertIn("| tiny | decode | 4 | 3 | 22 | nccl compiled | - | 20 | stretto graph | 2.0e-02 | 1.100 | 2.000 |", text)
        self.assertIn("| tiny | train | 4 | 3 | - | - | - | - | - | - | - | - |", text)
        self.assertNotIn("One rank", text)
        self.assertIn("in geometric mean: decode 1.10 (worst 1.10).", text)
        self.assertIn("no way can be faster: decode 2.00.", text)
        self.assertIn("One rank", models.models_section("models.json", {**result, "ranks": 1}))


class LayersOnRanks(unittest.TestCase):
    PATH = pathlib.Path("bench/results/layers.json")
    ROW = {"operator": "mlp m=64 h=32 f=16 ranks=2 dtype=bf16", "link_bytes": 3_200_000, "failed": {},
           "us": {"products": [8.0, 7, 9], "nccl": [30.0, 29, 31], "async-tp": [24.0, 23, 25],
                  "stretto parts": [22.0, 21, 23], "stretto": [20.0, 19, 21], "stretto split=2/tiles": [25.0, 24, 26]},
           "errors": {}, "schedules": {"stretto": "up:tiles/down:slices"}}

    def section(self, *rows):
        return layers.layers_section(self.PATH, {
            "machine": "GPU", "ranks": 2, "commit": "abc", "date": "today", "torch": "2.0", "data": "standard normal",
            "packages": {"triton": "triton 3"}, "rows": list(rows)})

    def test_auto_stands_beside_the_fastest_library_and_the_parts(self):
        text = self.section(self.ROW)
        self.assertIn("### mlp\n\n1.20 (worst 1.20) over the fastest library, 1.50 (worst 1.50) over the best with NCCL, "
                      "1.10 (worst 1.10) over the parts", text)
        # 3.2 MB at 320 GB/s take longer than the products.
        self.assertIn("| m=64 h=32 f=16 | 8.0 | 24.0 | async-tp | 22.0 | 20.0 | 19.0–21.0 | `up:tiles/down:slices` | 1.20 | "
                      "1.10 | 0.50 | split=2/tiles 25.0 |", text)

    def test_rows_that_were_cut_or_failed_do_not_end_the_page(self):
        failed = {**self.ROW, "us": {"nccl": [30.0, 29, 31]}, "failed": {"stretto": "no time"}, "schedules": {}}
        text = self.section({"operator": "mlp m=1 h=2 f=4 ranks=2", "failed": {"row": "no memory"}}, failed)
        self.assertIn("| - | 30.0 | nccl | - | failed | - | `-` | - | - | - | - |", text)
        self.assertIn("- m=64 h=32 f=16: stretto: no time", text)
        self.assertIn("### mlp\n\n- over the fastest library", text)


class Graphs(unittest.TestCase):
    def test_operators_of_several_products_have_a_section_of_their_own(self):
        auto = {"strategy": "auto", "short": "up:tiles/down:tiles", "time_us": 20.0, "low_us": 19.0, "high_us": 21.0,
                "predicted_us": 18.0}
        row = {"operator": "mlp m=64 h=32 f=16 ranks=2 dtype=bf16", "gemm_us": 15.0, "sequential_us": 30.0,
               "floor_us": 16.0, "strategies": [auto, {"strategy": "tiles", "short": "t", "time_us": 18.0, "low_us": 17.0,
                                                       "high_us": 19.0}, {"strategy": "waves", "refused": ["no"]}]}
        refused = {**row, "strategies": [{"strategy": "auto", "wrong": "values"}]}
        result = {"benchmark": "fused", "machine": "GPU", "ranks": 2, "commit": "abc", "date": "today",
                  "data": "standard normal", "rows": [row, refused]}
        self.assertTrue(graphs.is_of_graphs(result))
        self.assertEqual(pages.kind_of(result), "graphs")
        text = graphs.graphs_section(pathlib.Path("any.json"), result)
        self.assertIn("### mlp: 1.50x over the library path (worst 1.50)", text)
        self.assertIn("| m=64 h=32 f=16 | 15.0 | 30.0 | 20.0 | 19.0–21.0 | 18.0 | `up:tiles/down:tiles` | 1.50 | 0.80 | "
                      "tiles 18.0 |", text)
        self.assertEqual(text.count("| m=64"), 1)
        fused = {"benchmark": "fused", "rows": [{"operator": OPERATOR.format(64), "strategies": []}]}
        self.assertFalse(graphs.is_of_graphs(fused))
        self.assertEqual(summary.fused_rows({"ranks": 4, **fused}), [])


class Grouped(unittest.TestCase):
    def test_the_tile_stands_beside_torch_and_the_better_form_of_deep_gemm(self):
        row = {"model": "mixtral", "product": "down", "tokens": 4, "rows": 8, "active": 4, "n": 100, "k": 50,
               "tile": "256x128", "padding": {"16": 1.25},
               "us": {"torch": [30.0, 29, 31], "256x128": [20.0, 19, 21], "128x256": [10.0, 9, 11],
                      "deepgemm masked": [25.0, 24, 26], "deepgemm contiguous": [28.0, 27, 29]}}
        alone = {**row, "tokens": 4096, "us": {"torch": [10.0, 9, 11], "256x128": [20.0, 19, 21]}}
        result = {"machine": "GPU", "commit": "abc", "date": "today", "data": "random", "rows": [row, alone]}
        section = grouped.grouped_section(pathlib.Path("any.json"), result)
        self.assertIn("| mixtral | down | 4 | 2 | 256x128 | 20.0 | 0 | 0.00 | 25.0% | 1.50 | 1.25 |", section)
        self.assertIn("| 20.0 | 0 | 0.00 | 25.0% | 0.50 | - |", section)
        self.assertIn("2048 tokens 1.50 beside torch._grouped_mm (worst row 1.50) and 1.25 beside DeepGEMM", section)
        self.assertIn("4096 on 0.50 beside torch._grouped_mm (worst row 0.50)", section)


class Layers(unittest.TestCase):
    def test_the_fastest_plan_stands_beside_pytorch_and_its_products(self):
        row = {"model": "dsv3", "load": "ep8", "t": 64, "h": 32, "f": 16, "experts": 4, "k": 2,
               "us": {"sequential": [30.0, 29, 31], "tiles": [20.0, 19, 22], "torch": [25.0, 24, 26],
                      "up alone": [10.0, 9, 11], "down alone": [6.0, 5, 7]}}
        refused = {**row, "us": {"torch": [777.0, 776, 778], "up alone": [1.0, 1, 1], "down alone": [1.0, 1, 1]}}
        result = {"machine": "GPU", "commit": "abc", "date": "today", "torch": "2.0", "data": "random",
                  "rows": [row, refused]}
        text = moe.moe_section(pathlib.Path("any.json"), result)
        self.assertIn("| dsv3 | ep8 | 64 32 16 4 2 | 32 | 20.0 | 19.0–22.0 | `tiles` | 25.0 | 16.0 | 1.25 | 1.25 |", text)
        self.assertIn("Over PyTorch 1.25 in geometric mean (worst row 1.25)", text)
        self.assertNotIn("777", text)
        self.assertNotIn("DeepGEMM", text)

    def test_the_faster_form_of_deep_gemm_stands_there_and_the_routing_is_named(self):
        row = {"model": "dsv3", "load": "ep8", "t": 64, "h": 32, "f": 16, "experts": 4, "k": 2,
               "us": {"tiles": [20.0, 19, 22], "torch": [25.0, 24, 26], "deepgemm contiguous": [30.0, 29, 31],
                      "deepgemm masked": [24.0, 23, 25], "up alone": [10.0, 9, 11], "down alone": [6.0, 5, 7]}}
        alone = {**row, "us": {"tiles": [20.0, 19, 22], "up alone": [10.0, 9, 11], "down alone": [6.0, 5, 7]}}
        result = {"machine": "GPU", "commit": "abc", "date": "today", "torch": "2.0", "data": "standard normal",
                  "routing": "zipf", "deep_gemm": "sgl-deep-gemm 1.0", "rows": [row, alone]}
        text = moe.moe_section(pathlib.Path("any.json"), result)
        self.assertIn("## Layers of experts, zipf routing, GPU", text)
        self.assertIn("| `tiles` | 25.0 | 24.0 | 16.0 | 1.25 | 1.20 | 1.25 |", text)
        self.assertIn("| `tiles` | - | - | 16.0 | - | - | 1.25 |", text)
        self.assertIn("Over DeepGEMM 1.20 in geometric mean (worst row 1.20)", text)
        result |= {"routing": "uniform", "deep_gemm": "not there: no package has deep_gemm",
                   "rows": [{**alone, "us": {**alone["us"], "torch": [25.0, 24, 26]}}]}
        text = moe.moe_section(pathlib.Path("any.json"), result)
        self.assertIn("## Layers of experts, GPU", text)
        self.assertIn("DeepGEMM took no part (not there: no package has deep_gemm)", text)


if __name__ == "__main__":
    unittest.main()
