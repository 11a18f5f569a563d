"""Results that operators write where the caller says, in the caller's type under autocast."""

import unittest

from ranks import Numbers, normal, run

import torch

import stretto.torch as st
from stretto.torch import ops

RANKS, K, N = 3, 24, 16


class Out(Numbers):
    def check(self, call, *shapes):
        """call(group, out) gives tensors of these shapes, in `out` too, which it then returns."""
        def both(group):
            right = call(group, None)
            right = right if isinstance(right, tuple) else (right,)
            outs = tuple(torch.full(shape, float("nan"), dtype=right[0].dtype) for shape in shapes)
            call(group, outs if len(outs) > 1 else outs[0])
            for out, one in zip(outs, right):
                self.assertTrue(torch.equal(out, one))
        run(RANKS, both)

    def test_results_are_written_where_the_caller_says(self):
        x, weight = normal(1, 6, K), normal(2, N, K)
        bias, residual, scale = normal(3, N), normal(4, 6, N), normal(5, N)
        for biased in (bias, None):
            self.check(lambda g, out: st.all_gather_matmul(x, weight, biased, g, out=out), (18, N))
            self.check(lambda g, out: st.matmul_reduce_scatter(x, weight, biased, g, out=out), (2, N))
            self.check(lambda g, out: st.matmul_all_reduce(x, weight, biased, g, out=out), (6, N))
            self.check(lambda g, out: st.column_matmul(x, weight, biased, g, out=out), (6, N))
        self.check(lambda g, out: st.matmul_all_reduce_add_rms_norm(x, weight, residual, scale, 1e-6, g, out=out),
                   (6, N), (6, N))
        for shared in (False, True):
            self.check(lambda g, out: st.mlp(x, [weight, weight], weight.t(), g, sequence_parallel=shared, out=out),
                       (6, K))

    def test_rows_of_another_dimension_and_several_weights(self):
        x, many = normal(1, 2, 3, K), normal(2, 3 * N, K).split([N, 2 * N])
        self.check(lambda g, out: torch.cat(st.all_gather_matmul(x, many, group=g, out=out), -1), (6, 3, 3 * N))
        self.check(lambda g, out: st.all_gather_matmul(x, many[0], group=g, dim=1, out=out), (2, 9, N))
        self.check(lambda g, out: st.matmul_reduce_scatter(x, many[0], group=g, dim=1, out=out), (2, 1, N))
        self.check(lambda g, out: st.mlp(x, many[0], many[0].t(), g, activation="silu", sequence_parallel=True,
                                         dim=1, out=out), (2, 3, K))

    def test_autocast(self):
        """Of every operator: tensors are cast, and what is written has the type that they are cast to."""
        x, w, scale = (normal(1, 6, K, dtype=torch.float32), normal(2, N, K, dtype=torch.float32) / 4,
                       normal(3, N, dtype=torch.float32))
        residual, ids, weights = normal(4, 6, N, dtype=torch.float32), torch.zeros(6, 2).int(), torch.ones(6, 2)
        ids[:, 1], down = 2, w.t().contiguous()
        experts = [normal(seed, 3, *shape, dtype=torch.float32) / 4 for seed, shape in
                   ((5, (16, K)), (6, (16, K)), (7, (K, 16)))]
        router, bags, tables = normal(8, 3, K, dtype=torch.float32), torch.zeros(6, 2, 2).int(), normal(9, 2, 4, 8)
        calls = {
            "all_gather_matmul": lambda g, **out: st.all_gather_matmul(x, w, scale, g, **out),
            "matmul_reduce_scatter": lambda g, **out: st.matmul_reduce_scatter(x, w, scale, g, **out),
            "matmul_all_reduce": lambda g, **out: st.matmul_all_reduce(x, w, scale, g, **out),
            "column_matmul": lambda g, **out: st.column_matmul(x, w, scale, g, **out),
            "matmul_all_reduce_add_rms_norm": lambda g, **out: st.matmul_all_reduce_add_rms_norm(
                x, w, residual, scale, 1e-6, g, **out),
            "mlp": lambda g, **out: st.mlp(x, [w, w], down, g, **out),
            "moe": lambda g, **out: st.moe(x, ids, weights, *experts, g, **out),
            "moe_with_router": lambda g, **out: st.moe_with_router(x, router, *experts, 2, g, **out),
            "matmul_all_to_all": lambda g, **out: st.matmul_all_to_all(x, w, scale, g, **out),
            "all_to_all_matmul": lambda g, **out: st.all_to_all_matmul(x, w, scale, g, **out),
            "embedding_all_to_all": lambda g, **out: st.embedding_all_to_all(bags, tables, g, **out)}
        self.assertEqual(set(calls), set(ops.OUT_SCHEMAS))

        def program(group):
            for name, call in calls.items():
                with self.subTest(name), torch.autocast("cpu", dtype=torch.bfloat16):
                    right = call(group)
                    right = right if isinstance(right, tuple) else (right,)
                    outs = tuple(torch.empty_like(one) for one in right)
                    given = call(group, out=outs if len(outs) > 1 else outs[0])
                    self.assertEqual(right[0].dtype, torch.bfloat16)
                    for one, other, its in zip(outs, right, given if len(outs) > 1 else (given,)):
                        self.assertTrue(torch.equal(one, other))
                        self.assertIs(its, one)
        run(1, program)

    def test_what_pytorch_does(self):
        x, weight = normal(1, 6, K).double(), normal(2, N, K).double()
        out = torch.empty(6, N, dtype=torch.float64)
        run(1, lambda g: st.matmul_all_reduce(x, weight, group=g, out=out), fallback=True)
        self.assert_close(out, x @ weight.t())


if __name__ == "__main__":
    unittest.main()
