"""parallelize() by names: those of several kinds of models, fused weights, and what is not known."""

import unittest

from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F
from torch import nn

import stretto.torch as st
from stretto.torch._names import dealt_heads

RANKS, HIDDEN, WIDTH, HEADS, KEYS, SIZE = 2, 32, 64, 4, 2, 8


def attend(q, k, v):
    """Of [..., heads, rows, head_dim]."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(-2, -3).flatten(-2)


class Titan(nn.Module):
    """As torchtitan's and Llama's own are; heads are asked for by their number."""

    class Attention(nn.Module):
        def __init__(self, keys, heads=HEADS):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.n_rep, self.head_dim = heads, keys, heads // keys, SIZE
            self.wq, self.wo = nn.Linear(HIDDEN, heads * SIZE), nn.Linear(heads * SIZE, HIDDEN, bias=False)
            self.wk, self.wv = nn.Linear(HIDDEN, keys * SIZE, bias=False), nn.Linear(HIDDEN, keys * SIZE)
            self.q_norm, self.k_norm = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE, bias=False)

        def forward(self, x):
            counts = self.n_heads, self.n_kv_heads, self.n_kv_heads
            q, k, v = (one(x).view(*x.shape[:-1], count, self.head_dim)
                       for one, count in zip((self.wq, self.wk, self.wv), counts))
            k = self.k_norm(k).repeat_interleave(self.n_rep, -2)
            v = v.repeat_interleave(self.n_rep, -2)
            return self.wo(attend(*(one.transpose(-2, -3) for one in (self.q_norm(q), k, v))))

    class FeedForward(nn.Module):
        def __init__(self, width=WIDTH):
            super().__init__()
            self.w1, self.w3 = nn.Linear(HIDDEN, width, bias=False), nn.Linear(HIDDEN, width, bias=False)
            self.w2 = nn.Linear(width, HIDDEN, bias=False)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    def __init__(self, keys=KEYS, heads=HEADS, width=WIDTH):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({
            "attention_norm": nn.LayerNorm(HIDDEN), "attention": self.Attention(keys, heads),
            "feed_forward": self.FeedForward(width)}) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["attention"](layer["attention_norm"](x))
            x = x + layer["feed_forward"](x)
        return x


class Fused(nn.Module):
    """As Phi-3 is: one weight for queries, keys and values, and one for both of an MLP."""

    class Config:
        def __init__(self, keys, heads):
            self.num_attention_heads, self.num_key_value_heads = heads, keys

    class Attention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, self.head_dim = config, SIZE
            self.num_key_value_heads = config.num_key_value_heads
            heads = config.num_attention_heads
            self.num_key_value_groups = heads // self.num_key_value_heads
            self.qkv_proj = nn.Linear(HIDDEN, (heads + 2 * self.num_key_value_heads) * SIZE)
            self.o_proj = nn.Linear(heads * SIZE, HIDDEN, bias=False)

        def forward(self, x):
            sizes = [count * self.head_dim for count in (
                self.config.num_attention_heads, self.num_key_value_heads, self.num_key_value_heads)]
            q, k, v = (one.unflatten(-1, (-1, self.head_dim)).transpose(-2, -3)
                       for one in self.qkv_proj(x).split(sizes, -1))
            k, v = (one.repeat_interleave(self.num_key_value_groups, -3) for one in (k, v))
            return self.o_proj(attend(q, k, v))

    class Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gate_up_proj = nn.Linear(HIDDEN, 2 * width)
            self.down_proj = nn.Linear(width, HIDDEN, bias=False)

        def forward(self, x):
            gate, up = self.gate_up_proj(x).chunk(2, -1)
            return self.down_proj(F.gelu(gate) * up)

    def __init__(self, keys=KEYS, heads=HEADS, width=WIDTH):
        super().__init__()
        self.config = self.Config(keys, heads)
        self.self_attn, self.mlp = self.Attention(self.config), self.Mlp(width)

    def forward(self, x):
        x = x + self.self_attn(x)
        return x + self.mlp(x)


class Mixture(nn.Module):
    """As transformers' are: experts in stacks, and what chooses them."""

    class Experts(nn.Module):
        def __init__(self, experts, width):
            super().__init__()
            self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * width, HIDDEN) / 8)
            self.down_proj = nn.Parameter(torch.randn(experts, HIDDEN, width) / 8)
            self.act_fn = nn.SiLU()
            self.is_concatenated, self.is_transposed, self.has_gate, self.has_bias = True, False, True, False

        def forward(self, x, ids, weights):
            y = torch.zeros_like(x)
            for expert, (both, down) in enumerate(zip(self.gate_up_proj, self.down_proj)):
                gate, up = F.linear(x, both).chunk(2, -1)
                y = y + F.linear(self.act_fn(gate) * up, down) * (weights * (ids == expert)).sum(-1, keepdim=True)
            return y

    def __init__(self, experts=3, width=24):
        super().__init__()
        self.gate, self.experts = nn.Linear(HIDDEN, experts, bias=False), self.Experts(experts, width)

    def forward(self, x):
        rows = x.flatten(0, -2)
        weights, ids = self.gate(rows).softmax(-1).topk(2)
        return x + self.experts(rows, ids, weights).view(x.shape)


def made(kind, *arguments):
    torch.manual_seed(3)
    return kind(*arguments)


def losses(model, x):
    y = model(x)
    y.float().square().sum().backward()
    return y.detach()


class Parallelize(Numbers):
    def check(self, kind, *arguments, ranks=RANKS):
        """Results and all gradients are those of the whole model, and whole checkpoints are taken."""
        x = normal(1, 2, 6, HIDDEN, dtype=torch.float32)
        right, others = made(kind, *arguments), [made(kind, *arguments) for _ in range(ranks)]
        expected = losses(right, x)

        def program(group):
            model = st.parallelize(others[group.rank], group)
            y = losses(model, x)
            cuts = {f"{path}.{name}": cut for path, layer in model.named_modules()
                    for name, cut in getattr(layer, "cuts", {}).items()}
            other = st.parallelize(made(kind, *arguments).to("meta"), group)
            other.load_state_dict(right.state_dict(), assign=True)
            return y, {name: one.grad for name, one in model.named_parameters()}, cuts, other(x).detach()

        found = run(ranks, program)
        self.assertFalse(st.report().fallbacks, st.report())
        for y, gradients, cuts, again in found:
            self.assert_close(y, expected)
            self.assert_close(again, expected)
            self.assertTrue(cuts)
            for name, parameter in right.named_parameters():
                part = cuts[name].own(parameter.grad) if name in cuts else parameter.grad
                with self.subTest(name):
                    largest = parameter.grad.abs().max()
                    self.assert_close(gradients[name] / largest, part / largest)
        return others

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

    def test_heads_of_keys_that_are_fewer_than_ranks(self):
        for keys, ranks in ((1, 2), (2, 4), (1, 4)):
            for kind in (Titan, Fused):
                with self.subTest(kind.__name__, keys=keys, ranks=ranks):
                    models = self.check(kind, keys, ranks=ranks)
                    right = made(kind, keys)
                    if kind is Titan:
                        for rank, model in enumerate(models):
                            head = right.layers[0]["attention"].wk.weight.chunk(keys)[rank * keys // ranks]
                            attention = model.layers[0]["attention"]
                            self.assertTrue(torch.equal(attention.wk.weight, head))
                            self.assertEqual((attention.n_kv_heads, attention.n_rep), (1, HEADS // ranks))

    def test_experts(self):
        for width, ranks, own in ((16, 2, 8), (24, 4, 8), (20, 3, 8)):
            with self.subTest(width=width, ranks=ranks):
                model = self.check(Mixture, 3, width, ranks=ranks)[0]
                self.assertEqual(model.experts.gate_up_proj.shape, (2, 3, own, HIDDEN))
                self.assertEqual(st.report().served, {"moe": 2 * ranks})  # the model, and what the checkpoint filled
                self.assertFalse(st.report().copies, st.report())

        def clipped(group):
            model = st.parallelize(made(Mixture), group)
            losses(model, normal(1, 2, 6, HIDDEN, dtype=torch.float32))
            whole = st.full_state_dict(model)
            for name, one in made(Mixture).state_dict().items():
                self.assertTrue(torch.equal(whole[name], one), name)
            return st.clip_grad_norm_(model, 1e9)

        right = made(Mixture)
        losses(right, normal(1, 2, 6, HIDDEN, dtype=torch.float32))
        norm = torch.nn.utils.clip_grad_norm_(right.parameters(), 1e9)
        for found in run(2, clipped):
            self.assert_close(found / norm, torch.ones(()))

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

    def test_heads_that_ranks_do_not_divide(self):
        """Heads of keys go to ranks with their queries; queries of one head to the ranks that have it."""
        self.assertEqual(dealt_heads(6, 3, 2), [((0, 4), (0, 2)), ((4, 2), (2, 1))])
        self.assertEqual(dealt_heads(10, 2, 4),
                         [((0, 3), (0, 1)), ((3, 2), (0, 1)), ((5, 3), (1, 1)), ((8, 2), (1, 1))])
        self.assertEqual(dealt_heads(6, 2, 3), [((0, 2), (0, 1)), ((2, 1), (0, 1)), ((3, 3), (1, 1))])
        self.assertIsNone(dealt_heads(4, 4, 8))
        for queries, keys, ranks in ((3, 3, 2), (6, 3, 2), (10, 2, 4)):
            for kind in (Titan, Fused):
                with self.subTest(kind.__name__, queries=queries, keys=keys, ranks=ranks):
                    self.check(kind, keys, queries, ranks=ranks)
        self.assertIn("matmul_all_reduce: copied a, filled up with zeros, since ranks do not divide its columns",
                      str(st.report()))

    def test_widths_that_ranks_do_not_divide(self):
        for kind in (Titan, Fused):
            model = self.check(kind, KEYS, HEADS, 50, ranks=4)[3]
            mlp = model.mlp if kind is Fused else model.layers[0]["feed_forward"]
            self.assertEqual((mlp.down_proj if kind is Fused else mlp.w2).weight.shape, (HIDDEN, 16))

    def test_heads_that_ranks_cannot_share(self):
        def refused(model):
            run(RANKS, lambda group: st.parallelize(model, group) if group.rank == 0 else None)
            return str(st.report())

        class Sinks(Titan.Attention):
            def __init__(self):
                super().__init__(KEYS)
                self.sinks = nn.Parameter(torch.zeros(HEADS))

        few = nn.Sequential(Titan.Attention(1, 1), Titan.FeedForward())
        self.assertIn("0 stays whole: its 1 heads of queries, 1 of each head of keys, are too few for 2 ranks",
                      refused(few))

        self.assertIn(f"how ranks share its sinks [{HEADS}] is not known: norms of heads are [{SIZE}]",
                      refused(nn.Sequential(Sinks())))
        wide = Titan.Attention(KEYS)
        wide.q_norm = nn.LayerNorm(HEADS * SIZE)
        self.assertIn(f"how ranks share its q_norm.weight [{HEADS * SIZE}] is not known", refused(nn.Sequential(wide)))
        gated = Titan.FeedForward()
        gated.norm = nn.LayerNorm(WIDTH)
        self.assertIn("0 stays whole: how ranks share its norm is not known", refused(nn.Sequential(gated)))

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
        with self.assertRaisesRegex(ValueError, "Linear has no module with linears of names that are known .*wq, wk"):
            run(1, lambda group: st.parallelize(nn.Linear(2, 2), group))

    def test_heads_that_do_not_go_with_columns(self):
        def wrong(**attributes):
            model = made(Titan)
            vars(model.layers[0]["attention"]).update(attributes)
            run(RANKS, lambda group: st.parallelize(model, group) if group.rank == 0 else None)
            return str(st.report())

        self.assertIn("layers.0.attention stays whole: its n_heads is 5, where its linears say 4", wrong(n_heads=5))
        self.assertIn("are no queries, keys and values of heads of 6 for wo of 32", wrong(head_dim=6))
        odd = nn.Sequential(made(Titan.Attention, 2, 5), Titan.FeedForward())  # 5 heads of queries for 2 of keys
        run(RANKS, lambda group: st.parallelize(odd, group) if group.rank == 0 else None)
        self.assertIn("0 stays whole: wq, wk, wv with 40, 16, 16 columns are no queries", str(st.report()))


class Layers(Numbers):
    def test_parts_and_replicas_that_cannot_be(self):
        linear, make = nn.Linear(8, 12), st.ColumnParallelLinear.from_linear

        def program(group):
            for wrong, said in (
                    ({"parts": (4, 4)}, "out_features is 12, and its parts 4, 4 are 8"),
                    ({"parts": (12, 0)}, "a part of out_features is 0: there is nothing to deal to 2 ranks"),
                    ({"places": [[(0, 8), (8, 3)]]}, "out_features is 12: there is a .* together they are all of it"),
                    ({"places": [[(0, 8), (6, 6)]]}, "those of two ranks the same or apart"),
                    ({"places": [[(0, 12)]]}, "for each of 2 ranks"),
                    ({"places": [[(0, 8), (8, 4)]], "parts": (6, 6)}, "out_features is 6 and 6: there is"),
                    ({"replicas": 3}, "is dealt to 2 ranks, of which 3 cannot have the same part"),
                    ({"parts": (8, 4), "replicas": (1, 2, 1)}, "has 2 parts, and replicas are of 3")):
                with self.assertRaisesRegex(ValueError, said):
                    make(linear, group, **wrong)
            layer = make(linear, group, sequence_parallel=False, gather_output=True)
            x = normal(1, 3, 8, dtype=torch.float32)
            self.assert_close(layer(x), linear(x))
            new = st.ColumnParallelLinear(8, 12, group=group, sequence_parallel=False, gather_output=True)
            self.assertEqual(new(x).shape, (3, 12))

        run(RANKS, program)


    def test_sizes_that_ranks_do_not_divide(self):
        """By rows and whole: results, gradients and checkpoints are those of one rank; what fills up stays zeros."""
        x = normal(1, 6, 8, dtype=torch.float32)
        for size, ranks in ((7, 2), (10, 4), (1, 2), (9, 8)):
            wide, narrow = made(nn.Linear, 8, size), made(nn.Linear, size, 8)
            h = wide(x)
            expected = narrow(h)
            expected.square().sum().backward()
            right = {f"{at}.{name}": one for at, linear in enumerate((wide, narrow))
                     for name, one in linear.named_parameters()}

            def program(group, shared):
                first = st.ColumnParallelLinear.from_linear(wide, group, sequence_parallel=shared)
                second = st.RowParallelLinear.from_linear(narrow, group, sequence_parallel=shared)
                own = x.tensor_split([min(len(x), one * -(-len(x) // ranks)) for one in range(1, ranks)])[group.rank]
                between = first(own, rows=6) if shared else first(x)
                y = second(between)
                y.square().sum().backward()
                both = nn.Sequential(first, second)
                whole = st.full_state_dict(both)
                both.load_state_dict(whole)
                gradients = {name: one.grad for name, one in both.named_parameters()}
                everything = st.ColumnParallelLinear.from_linear(wide, group, sequence_parallel=False,
                                                                 gather_output=True)
                return between.detach(), y.detach(), whole, gradients, [first.cuts, second.cuts], everything(x).detach()

            for shared in (True, False):
                with self.subTest(size=size, ranks=ranks, shared=shared):
                    found = run(ranks, lambda group: program(group, shared))
                    self.assertFalse(st.report().fallbacks, st.report())
                    between = torch.cat([one[0] for one in found], -1)
                    self.assert_close(between, h.detach())
                    results = [torch.cat([one[1] for one in found])] if shared else [one[1] for one in found]
                    for y in results:
                        self.assert_close(y, expected.detach())
                    for _, _, whole, gradients, cuts, everything in found:
                        self.assert_close(everything, h.detach())
                        for name, one in right.items():
                            self.assertTrue(torch.equal(whole[name], one.detach()), name)
                            cut = cuts[int(name[0])].get(name[2:])
                            part = one.grad if cut is None else cut.own(one.grad)
                            self.assert_close(gradients[name] / one.grad.abs().max(), part / one.grad.abs().max())


    def test_an_mlp_whose_width_ranks_do_not_divide(self):
        """In one plan, without a copy."""
        torch.manual_seed(4)
        gate, up, down = nn.Linear(16, 42), nn.Linear(16, 42), nn.Linear(42, 16, bias=False)
        x = normal(1, 6, 16, dtype=torch.float32)
        expected = down(F.silu(gate(x)) * up(x))
        expected.square().sum().backward()
        for ranks in (4, 8):
            def program(group):
                mlp = st.ParallelMLP.from_linears(gate, up, down, group=group, sequence_parallel=False)
                y = mlp(x)
                y.square().sum().backward()
                return y.detach(), [(cut.own(whole.weight.grad), layer.weight.grad) for layer, whole, cut in (
                    (one, whole, one.cuts["weight"]) for one, whole in zip((mlp.gate_proj, mlp.up_proj, mlp.down_proj),
                                                                         (gate, up, down)))]

            for y, gradients in run(ranks, program):
                self.assert_close(y, expected.detach())
                for right, got in gradients:
                    largest = right.abs().max().clamp(min=1)
                    self.assert_close(got / largest, right / largest)
            self.assertEqual(st.report().served["mlp"], ranks)
            self.assertFalse(st.report().copies or st.report().fallbacks, st.report())


class Language(nn.Module):
    """Tokens to logits, as torchtitan names them."""

    def __init__(self, tied, tokens=24):
        super().__init__()
        self.tok_embeddings, self.inner = nn.Embedding(tokens, HIDDEN, padding_idx=1), Titan()
        self.output = nn.Linear(HIDDEN, tokens, bias=not tied)
        if tied:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, ids):
        return self.output(self.inner(self.tok_embeddings(ids)))


class Vocabulary(Numbers):
    IDS = torch.randint(24, (2, 9), generator=torch.Generator().manual_seed(1))

    def check(self, how, tied, ranks=RANKS, tokens=24):
        right, others = made(Language, tied, tokens), [made(Language, tied, tokens) for _ in range(ranks)]
        labels = self.IDS.roll(1, 1)
        expected = right(self.IDS)
        F.cross_entropy(expected.flatten(0, 1), labels.flatten()).backward()

        def program(group):
            model = st.parallelize(others[group.rank], group, vocabulary=how)
            y = model(self.IDS)
            if how == "gathered":
                F.cross_entropy(y.flatten(0, 1), labels.flatten()).backward()
            else:  # what a loss of logits that are cut would give: its part of the gradient
                whole = expected.detach().requires_grad_()
                slope, = torch.autograd.grad(F.cross_entropy(whole.flatten(0, 1), labels.flatten()), whole)
                y.backward(slope.chunk(ranks, -1)[group.rank])
            other = st.parallelize(made(Language, tied, tokens).to("meta"), group, vocabulary=how)
            other.load_state_dict(right.state_dict(), assign=True)
            for name, whole in st.full_state_dict(other).items():
                self.assertTrue(torch.equal(whole, right.state_dict()[name]), name)
            return y.detach(), other(self.IDS).detach(), st.clip_grad_norm_(model, 1e9)

        found = run(ranks, program)
        self.assertFalse(st.report().fallbacks, st.report())
        norm = torch.cat([one.grad.flatten() for one in right.parameters()]).norm()
        for rank, (y, again, got_norm) in enumerate(found):
            part = expected.detach() if how == "gathered" else expected.detach().chunk(ranks, -1)[rank]
            self.assert_close(y, part)
            self.assert_close(again, part)
            self.assert_close(got_norm / norm, torch.ones(()))
            model = others[rank]
            for name, whole in right.output.named_parameters():
                gradient = whole.grad.chunk(ranks)[rank]
                got, rest = getattr(model.output, name).grad.tensor_split([len(gradient)])
                self.assert_close(got / whole.grad.abs().max(), gradient / whole.grad.abs().max())
                self.assertFalse(rest.any())
            self.assertEqual(model.output.weight is model.tok_embeddings.weight, tied)
            if tokens % ranks == 0:
                self.assertEqual(len(model.tok_embeddings.weight), tokens // ranks if tied else tokens)
            if not tied:
                largest = right.tok_embeddings.weight.grad.abs().max()
                self.assert_close(model.tok_embeddings.weight.grad / largest,
                                  right.tok_embeddings.weight.grad / largest)

    def test_logits_that_are_gathered(self):
        self.check("gathered", tied=False)
        self.check("gathered", tied=True, ranks=2)

    def test_vocabularies_that_ranks_do_not_divide(self):
        for how, tied, ranks in (("gathered", False, 2), ("gathered", True, 3), ("cut", True, 2), ("cut", False, 3)):
            with self.subTest(how, tied=tied, ranks=ranks):
                self.check(how, tied, ranks, tokens=25)

    def test_logits_that_stay_cut(self):
        self.check("cut", tied=False, ranks=2)
        self.check("cut", tied=True)

    def test_what_stays_whole_and_what_is_refused(self):
        models = [made(Language, False), made(Titan)]

        def program(group):
            if group.rank == 0:
                return None
            with self.assertRaisesRegex(ValueError, "Titan has no vocabulary that is known: no nn.Linear called lm_"):
                st.parallelize(models[1], group, vocabulary="cut")
            self.assertIsInstance(models[1].layers[0]["attention"].wq, nn.Linear)  # as it was
            with self.assertRaisesRegex(ValueError, "vocabulary is 'whole'; it is one of 'gathered', 'cut', or None"):
                st.parallelize(models[1], group, vocabulary="whole")
            models[0].tok_embeddings.max_norm = 1.0
            models[0].output.weight = models[0].tok_embeddings.weight
            st.parallelize(models[0], group, vocabulary="gathered")
            self.assertIs(models[0].output.weight, models[0].tok_embeddings.weight)
            return None

        run(RANKS, program)
        self.assertIn("output stays whole: Embedding does more than to take rows", str(st.report()))


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
