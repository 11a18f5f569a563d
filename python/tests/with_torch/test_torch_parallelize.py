"""parallelize() by names: those of several kinds of models, fused weights, experts, and what is not known."""

import copy
import unittest

from parallelized import (HEADS, HIDDEN, KEYS, RANKS, SIZE, WIDTH, Fused, Mixture, Parallelized, Titan, losses, made)
from ranks import Numbers, normal, run

import torch
from torch import nn

import stretto.torch as st


class Names(Parallelized):
    def test_names_of_torchtitan_and_llamas_own(self):
        layer = self.check(Titan)[0].layers[0]
        self.assertEqual((layer["attention"].n_heads, layer["attention"].n_kv_heads), (HEADS // RANKS, KEYS // RANKS))
        self.assertEqual(layer["feed_forward"].w1.weight.shape, (WIDTH // RANKS, HIDDEN))

    def test_fused_weights_part_by_part(self):
        model = self.check(Fused)[1]
        self.assertEqual(model.mlp.gate_up_proj.weight.shape, (WIDTH, HIDDEN))
        right = made(Fused).mlp.gate_up_proj.weight
        parts = torch.cat([right[WIDTH // 2:WIDTH], right[WIDTH + WIDTH // 2:]])
        self.assertTrue(torch.equal(model.mlp.gate_up_proj.weight, parts))
        # The config that the model and its attentions share is as it was.
        self.assertEqual((model.config.num_attention_heads, model.self_attn.config.num_attention_heads),
                         (HEADS, HEADS // RANKS))

    def test_widths_that_ranks_do_not_divide(self):
        for kind in (Titan, Fused):
            model = self.check(kind, KEYS, HEADS, 50, ranks=4)[3]
            mlp = model.mlp if kind is Fused else model.layers[0]["feed_forward"]
            self.assertEqual((mlp.down_proj if kind is Fused else mlp.w2).weight.shape, (HIDDEN, 16))

    def test_what_is_not_known_stays_whole_and_is_said(self):
        class Other(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.ModuleDict({"mlp": Titan.FeedForward(), "router": nn.Linear(8, 8)})
                                            for _ in range(3))
                self.tok_embeddings, self.output = nn.Embedding(8, HIDDEN), nn.Linear(HIDDEN, 8)
                self.layers[2]["mlp"].w2 = nn.Linear(WIDTH, HIDDEN + 1)

        with self.assertLogs("stretto.torch", "WARNING") as logged:
            model = run(1, lambda group: st.parallelize(Other(), group))[0]
        self.assertIsInstance(model.layers[1]["mlp"].w2, st.RowParallelLinear)
        self.assertIsInstance(model.layers[2]["mlp"].w1, nn.Linear)
        said = {reason: count for (_, reason), count in st.report().fallbacks.items()}
        self.assertEqual(said, {
            "layers.*.router stays whole: its name is none that is known": 3,
            f"layers.2.mlp stays whole: w1, w3, w2 are [{WIDTH}, {HIDDEN}], [{WIDTH}, {HIDDEN}], [{HIDDEN + 1}, "
            f"{WIDTH}], and no MLP": 1})
        self.assertEqual(len(logged.output), 2)
        with self.assertRaisesRegex(ValueError, r"^Fused is dealt already \(ranks=1\)$"):
            run(1, lambda group: st.parallelize(st.parallelize(made(Fused), group), group))
        with self.assertRaisesRegex(ValueError, "Linear has no module with linears of names that are known .*wq, wk"):
            run(1, lambda group: st.parallelize(nn.Linear(2, 2), group))

    def test_heads_that_have_a_norm_each_stay_whole(self):
        class Norms(nn.Module):
            def __init__(self):
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(SIZE) for _ in range(HEADS))

            def forward(self, q):
                return torch.stack([norm(head) for norm, head in zip(self.norms, q.unbind(-2))], -2)

        def model():
            whole = made(Titan)
            for number, layer in enumerate(whole.layers):
                layer["attention"].q_norm = Norms()
                for head, norm in enumerate(layer["attention"].q_norm.norms):
                    nn.init.normal_(norm.weight, 1 + number + head)
            return whole

        x, right, others = normal(1, 2, 6, HIDDEN, dtype=torch.float32), model(), [model() for _ in range(RANKS)]
        with self.assertLogs("stretto.torch", "WARNING"), torch.no_grad():
            found = run(RANKS, lambda group: st.parallelize(others[group.rank].requires_grad_(False), group)(x))
        for y in found:
            self.assert_close(y, right(x))
        self.assertIn("layers.0.attention stays whole: how ranks share its q_norm.norms.0.weight [8] is not known",
                      str(st.report()))


class Experts(Parallelized):
    def test_experts(self):
        for width, ranks, own in ((16, 2, 8), (24, 4, 8), (20, 3, 8)):
            with self.subTest(width=width, ranks=ranks):
                model = self.check(Mixture, 3, width, ranks=ranks)[0]
                self.assertEqual(model.experts.gate_up_proj.shape, (2, 3, own, HIDDEN))
                self.assertEqual(st.report().served, {"moe": 2 * ranks})  # the model, and what the checkpoint filled
                self.assertFalse(st.report().copies, st.report())

        # Made here, since the generator of numbers is every thread's.
        others, right_state = [made(Mixture) for _ in range(2)], made(Mixture).state_dict()

        def clipped(group):
            model = st.parallelize(others[group.rank], group)
            losses(model, normal(1, 2, 6, HIDDEN, dtype=torch.float32))
            whole = st.full_state_dict(model)
            for name, one in right_state.items():
                self.assertTrue(torch.equal(whole[name], one), name)
            return st.clip_grad_norm_(model, 1e9)

        right = made(Mixture)
        losses(right, normal(1, 2, 6, HIDDEN, dtype=torch.float32))
        norm = torch.nn.utils.clip_grad_norm_(right.parameters(), 1e9)
        for found in run(2, clipped):
            self.assert_close(found / norm, torch.ones(()))

    def test_layers_that_share_what_they_are_made_of(self):
        def shared(*kinds):
            parts = [made(kind) for kind in kinds]
            return nn.Sequential(*(part for _ in range(2) for part in parts)).requires_grad_(False)

        x, right = normal(1, 2, 6, HIDDEN, dtype=torch.float32), shared(Mixture, Fused)
        others = [copy.deepcopy(right) for _ in range(RANKS)]

        def program(group):
            model = st.parallelize(others[group.rank], group)
            self.assertIs(model[0].experts, model[2].experts)
            return model(x), st.full_state_dict(model)

        for y, state in run(RANKS, program):
            self.assert_close(y, right(x))
            self.assertEqual(list(state), list(right.state_dict()))
        self.assertEqual(st.report().served["moe"], 2 * RANKS)

        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = self.other = Mixture.Experts(3, 16)

        model = run(1, lambda group: st.parallelize(Two(), group))[0]
        self.assertIsInstance(model.one, st.ParallelExperts)
        self.assertIs(model.one, model.other)

    def test_experts_that_are_none_of_strettos(self):
        class Own(Mixture.Experts):
            def _apply_gate(self, made):
                return made.chunk(2, -1)[0]

        for said, change in (
                ("its is_transposed is True, and Stretto takes False", {"is_transposed": True}),
                ("how its weights lie is not known: it has no has_bias, as transformers'", {"has_bias": None}),
                ("its function is GELU", {"act_fn": nn.GELU()}),
                ("its has_post_expert_norm is True", {"has_post_expert_norm": True}),
                ("how ranks share its scales is not known", {"scales": nn.Parameter(torch.ones(3))}),
                ("gate and up are [3, 48, 31]; [3, 48, 32] goes with down [3, 32, 24]",
                 {"gate_up_proj": nn.Parameter(torch.zeros(3, 48, 31))}),
                ("it has a gate of its own", {"__class__": Own})):
            model = made(Mixture)
            for name, value in change.items():
                setattr(model.experts, name, value)
            with self.assertLogs("stretto.torch", "WARNING"):
                run(1, lambda group: st.parallelize(model, group))
            self.assertIn(f"experts stays whole: {said}", str(st.report()))
            self.assertEqual(len(st.report().fallbacks), 1)  # the router is known


class Clipping(Numbers):
    def test_the_norm_is_that_of_the_whole_model(self):
        x = normal(1, 2, 6, HIDDEN, dtype=torch.float32)
        keys = 1  # both ranks have it
        right, others = made(Titan, keys), [made(Titan, keys) for _ in range(RANKS)]
        losses(right, x)
        norm = torch.nn.utils.clip_grad_norm_(right.parameters(), 2.0)

        def program(group):
            model = st.parallelize(others[group.rank], group)
            losses(model, x)
            return st.clip_grad_norm_(model, 2.0), st.clip_grad_norm_(model, 2.0)

        found = run(RANKS, program)
        for rank, (before, after) in enumerate(found):
            self.assert_close(before / norm, torch.ones(()))
            self.assertAlmostEqual(after.item(), 2.0, delta=1e-4)
            self.assertTrue(torch.equal(before, found[0][0]))
            gradient = others[rank].layers[0]["attention_norm"].weight.grad
            self.assert_close(gradient, right.layers[0]["attention_norm"].weight.grad)
        # Below the most nothing is scaled.
        whole = made(Titan)
        losses(whole, x)
        gradient = whole.layers[0]["feed_forward"].w2.weight.grad.clone()
        st.clip_grad_norm_(whole, 1e6)
        self.assertTrue(torch.equal(whole.layers[0]["feed_forward"].w2.weight.grad, gradient))


if __name__ == "__main__":
    unittest.main()
