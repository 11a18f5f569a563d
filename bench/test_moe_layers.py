"""What benchmarks of layers of experts are of, and what DeepGEMM sets aside for them; and the models that say so."""

import collections
import json
import math
import pathlib
import random
import sys
import unittest

import moe_layers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "shapes"))

import moe  # noqa: E402

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


class Shapes(unittest.TestCase):
    def test_the_kept_lists_are_what_the_script_prints(self):
        for name in moe.LISTS:
            kept = (HERE / "shapes" / f"moe_{name}_on_2.txt").read_text(encoding="utf-8")
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
