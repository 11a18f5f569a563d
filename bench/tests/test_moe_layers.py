"""What benchmarks of layers of experts are of, and what DeepGEMM sets aside for them; and the models that say so."""

import collections
import json
import math
import pathlib
import random
import sys
import tempfile
import unittest

from bench.report import expert_bars
from bench.rivals import warm_experts
from bench.shapes import layers as layer_shapes
from bench.shapes import moe, moe_layers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"

PUBLISHED = {"mixtral": "mixtral-8x7b", "qwen30b": "qwen3-30b-a3b", "qwen235b": "qwen3-235b-a22b",
             "dsv3": "deepseek-v3", "gptoss": "gpt-oss-120b", "glm45": "glm-4.5"}


class Layers(unittest.TestCase):
    def test_a_rank_of_eight_has_an_eighth_of_experts_or_of_columns(self):
        self.assertEqual(moe_layers.local("dsv3", "tp8", 64), (7168, 256, 256, 8, 64))
        self.assertEqual(moe_layers.local("dsv3", "ep8", 64), (7168, 2048, 32, 8, 64))
        self.assertEqual(moe_layers.local("mixtral", "ep8", 1), (4096, 14336, 1, 1, 2))
        for model in moe_layers.MODELS:
            for tokens in (1, 4, 16):
                *_, experts, top_k, here = moe_layers.local(model, "ep8", tokens)
                self.assertLessEqual(top_k, experts)
                self.assertGreaterEqual(here, 1)

    def test_published_models_name_results_that_have_their_experts(self):
        models = json.loads((ROOT / "models" / "published.json").read_text(encoding="utf-8"))
        for short, name in PUBLISHED.items():
            results = json.loads((ROOT / models[name]["experts_measured"]).read_text(encoding="utf-8"))
            for load in ("ep8", "tp8"):
                measured = [row for row in results["rows"] if row["model"] == short and row["load"] == load]
                self.assertTrue(measured, (name, load))
                for row in measured:
                    wanted = moe_layers.local(short, load, 1)[:4]
                    self.assertEqual((row["h"], row["f"], row["experts"], row["k"]), wanted)
        self.assertEqual({name for name, model in models.items() if "experts_measured" in model},
                         set(PUBLISHED.values()))


def row_of(operator, link_bytes, library, took):
    return {"operator": operator, "link_bytes": link_bytes, "us": {"nccl torch": [library] * 3, "stretto": [took] * 3}}


class Bars(unittest.TestCase):
    def test_rates_are_the_best_of_as_many_rows(self):
        product = {"tile": "a", "n": 100, "k": 10, "active": 2}
        rates = expert_bars.Rates([{"rows": [{**product, "rows": 32, "us": {"a": [2.0], "torch": [1.0]}},
                                             {**product, "rows": 128, "us": {"a": [4.0]}}]}])
        self.assertEqual([rates.flops(rows) for rows in (1, 16, 63, 64, 900)], [32000, 32000, 64000, 64000, 64000])
        self.assertEqual(rates.bytes, 2 * (2 * 1000 + 128 * 110) / 4)

    def test_what_is_out_of_reach_is_said(self):
        rates = expert_bars.Rates([])
        rates.bytes, rates.by_rows = 4e7, [(1, 1e9)]
        operator = "moe-tp t=1000 h=100 f=1000 experts=8 k=8 ranks=2 dtype=bf16"
        products, sums, link = expert_bars.floors({"operator": operator, "link_bytes": 390_000_000}, rates)
        up, down = 8000 * 2 * 1000 * 100 / 1e9, 8000 * 2 * 500 * 100 / 1e9
        self.assertAlmostEqual(products, up + down)
        self.assertAlmostEqual(sums, 2 * 9000 * 100 / 4e7)
        self.assertAlmostEqual(link, 1000)
        for library, reach in ((1200, "no"), (1251, "hidden"), (1300, "yes")):
            cells = expert_bars.cells(row_of(operator, 390_000_000, library, 1100), rates)
            self.assertEqual((cells[8], cells[9], cells[11]), (reach, "1100", "98"), cells)

    def test_measured_layers_have_a_table_and_kernels(self):
        result = json.loads((BENCH / "results" / "experts_h200_x2.json").read_text(encoding="utf-8"))
        result["rows"][0]["kernels"] = {"stretto": [["grouped", 150.25, 1.0]]}
        text = expert_bars.report(result, expert_bars.measured_rates())
        self.assertIn("bar 1.25, 16 rows", text)
        self.assertEqual(sum(line.startswith("| moe-tp t=") for line in text.splitlines()), 16)
        self.assertIn("| stretto | grouped | 150.2 | 1 |", text)
        self.assertEqual(expert_bars.report({"rows": [{"operator": "mlp m=1", "us": {}}]}, None), "no layers of experts")


class Warmed(unittest.TestCase):
    def test_layers_whose_kernels_are_alike_are_one(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# first\nmoe-tp t=8 h=4 f=2 experts=4 k=2 ranks=2  # whole\nmlp m=1 h=2 f=3\n\n"
                       "moe-tp-up t=8 h=4 f=2 experts=4 k=2 ranks=2\nmoe-ep t=8 h=4 f=2 experts=4 k=2 ranks=2\n")
            file.flush()
            sizes = {"t": 8, "h": 4, "f": 2, "experts": 4, "k": 2}
            self.assertEqual(warm_experts.layers_of(file.name), [("moe-tp", sizes), ("moe-ep", sizes)])


class Shapes(unittest.TestCase):
    def test_the_kept_lists_are_what_the_script_prints(self):
        for name in moe.LISTS:
            kept = (BENCH / "shapes" / f"moe_{name}_on_2.txt").read_text(encoding="utf-8")
            self.assertEqual(kept, moe.text_of(name, 2))

    def test_each_rank_has_an_eighth_in_local_lists(self):
        for kind, t, h, f, experts, k, model in moe.shapes("tp8_local", 2):
            self.assertEqual((h, f // 2, experts, k), moe_layers.local(model, "tp8", t)[:4])
        for _, t, h, f, experts, k, model in moe.shapes("ep8_local", 2):
            self.assertEqual((h, f, experts // 2), moe_layers.local(model, "ep8", t)[:3])
            self.assertEqual(k, moe_layers.MODELS[model][3])
        # With fewer experts than a token takes there is no such layer.
        self.assertNotIn("mixtral", {model for *_, model in moe.shapes("ep8_local", 1)})
        self.assertEqual({t for _, t, *_ in moe.shapes("ep", 4)}, {64, 512, 4096, 32768})

    def test_unseen_layers_are_the_same_each_time_and_ranks_share_their_tokens(self):
        for ranks in (2, 4, 8):
            found = [layers_of(line) for line, _ in layer_shapes.unseen(ranks)]
            self.assertEqual(found, [layers_of(line) for line, _ in layer_shapes.unseen(ranks)])
            self.assertEqual(len(found), 4 * len(moe_layers.MODELS))
            for kind, sizes in found:
                self.assertEqual((kind[:4], sizes["t"] % ranks), ("moe-", 0))
                self.assertTrue(ranks <= sizes["t"] <= layer_shapes.MOST_TOKENS)
                self.assertLessEqual(sizes["k"], sizes["experts"])


def layers_of(line):
    kind, *words = line.split()
    return kind, {key: int(value) for key, value in (word.split("=") for word in words)}


class Routings(unittest.TestCase):
    def drawn(self, routing, experts, top_k, tokens=2000):
        """As moe_contest.py draws, with the standard library's numbers."""
        dice, bias = random.Random(1), moe_layers.bias_of(routing, experts)
        rows = []
        for _ in range(tokens):
            scores = [-math.log(-math.log(dice.random())) + one for one in bias]
            rows.append(sorted(range(experts), key=lambda expert: -scores[expert])[:top_k])  # noqa: B023
        return rows

    def test_zipf_goes_with_one_over_the_number(self):
        first = collections.Counter(row[0] for row in self.drawn("zipf", 8, 1))
        whole = sum(1 / (expert + 1) for expert in range(8))
        for expert in range(8):
            self.assertAlmostEqual(first[expert] / 2000, 1 / (expert + 1) / whole, delta=0.04)

    def test_one_hot_has_one_expert_of_every_token_and_others_evenly(self):
        rows = self.drawn("one-hot", 8, 2)
        self.assertEqual({row[0] for row in rows}, {0})
        others = collections.Counter(row[1] for row in rows)
        self.assertEqual(set(others), set(range(1, 8)))
        self.assertLess(max(others.values()), 2 * min(others.values()))

    def test_others_are_refused(self):
        with self.assertRaisesRegex(ValueError, "known: uniform, zipf, one-hot"):
            moe_layers.bias_of("even", 8)

    def test_results_name_them(self):
        self.assertEqual(moe_layers.data_of("uniform"), "standard normal, random routing")
        self.assertEqual(moe_layers.data_of("zipf"), "standard normal, zipf routing")


class DeepGemm(unittest.TestCase):
    def test_each_form_has_room_for_every_choice(self):
        for counts in ([3, 0, 65, 1], [500, 10, 0, 129], [1], [0, 8]):
            align, forms = moe_layers.spaces_of(counts)
            self.assertIn(align, (64, 128))
            self.assertEqual(set(forms), {"contiguous", "masked"})
            for space in forms.values():
                self.assertTrue(all(room >= count for room, count in zip(space, counts)))
            self.assertTrue(all(room % align == 0 for room in forms["contiguous"]))
            self.assertEqual(len(set(forms["masked"])), 1)

    def test_masked_is_left_out_where_one_expert_has_nearly_all(self):
        self.assertNotIn("masked", moe_layers.spaces_of([8192] + [16] * 255)[1])

    def test_the_faster_form_counts(self):
        us = {"deepgemm masked": [3.0, 2, 4], "deepgemm contiguous": [2.0, 1, 3], "torch": [1.0, 1, 1]}
        self.assertEqual(moe_layers.best_deep_gemm(us), 2.0)
        self.assertIsNone(moe_layers.best_deep_gemm({"torch": [1.0, 1, 1]}))


if __name__ == "__main__":
    unittest.main()
