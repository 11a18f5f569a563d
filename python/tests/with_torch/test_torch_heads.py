"""parallelize() deals heads of attention: fewer than ranks, what ranks do not divide, and what cannot be."""

import unittest

from parallelized import HEADS, KEYS, RANKS, SIZE, WIDTH, Fused, Parallelized, Titan, made
from ranks import run

import torch
from torch import nn

import stretto.torch as st
from stretto.torch._names import dealt_heads


class Heads(Parallelized):
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


if __name__ == "__main__":
    unittest.main()
