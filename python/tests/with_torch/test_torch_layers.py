"""Layers that ranks share, by themselves: parts of columns, and sizes that ranks do not divide."""

import unittest

from parallelized import RANKS, made
from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F
from torch import nn

import stretto.torch as st


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

    def test_layers_of_groups_that_are_gone_are_shown(self):
        def program(group):
            return nn.ModuleList([
                st.ColumnParallelLinear(8, 16, group=group), st.RowParallelLinear(16, 8, group=group),
                st.VocabularyParallelEmbedding.from_embedding(nn.Embedding(8, 4), group),
                st.ParallelExperts.from_stacks(torch.zeros(2, 32, 8), torch.zeros(2, 8, 16), group)])

        layers = run(2, program)[0]
        self.assertEqual(repr(layers).count("ranks=2"), 4)
        with self.assertRaisesRegex(ValueError, "no group is called 'threads-"):
            layers[0](torch.ones(2, 8))

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


if __name__ == "__main__":
    unittest.main()
