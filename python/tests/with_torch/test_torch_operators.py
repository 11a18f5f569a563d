"""Operators on the emulator, ranks as threads: what comes out is what PyTorch says, for every layout."""

import unittest

from ranks import Numbers, block, normal, run

import torch
import torch.nn.functional as F

import stretto.torch as st

RANKS, K, N = 3, 24, 16


class Gather(Numbers):
    def check(self, shape, dim=0, rows=None, biased=False, weights=1, dtype=torch.bfloat16, ranks=RANKS):
        """x of all ranks has `shape`, of which dimension `dim` is dealt."""
        whole = normal(1, *shape, K, dtype=dtype)
        many = [[normal(10 * rank + i + 2, N, K, dtype=dtype) for i in range(weights)] for rank in range(ranks)]
        biases = [[normal(99 + i, N, dtype=dtype) for i in range(weights)] if biased else None
                  for _ in range(ranks)]

        def call(group):
            own = block(shape[dim], ranks, group.rank)
            x = whole.movedim(dim, 0)[own].movedim(0, dim)
            return st.all_gather_matmul(x, many[group.rank], biases[group.rank], group, dim=dim, rows=rows)

        for rank, found in enumerate(run(ranks, call)):
            for index, y in enumerate(found):
                bias = biases[rank][index].double() if biased else None
                self.assert_close(y, F.linear(whole.double(), many[rank][index].double(), bias), dtype)
        self.assertFalse(st.report().fallbacks)

    def test_matrices(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with self.subTest(dtype):
                self.check((12,), dtype=dtype)

    def test_bias_and_several_weights(self):
        self.check((12,), biased=True, weights=3)

    def test_a_single_element_with_a_stride(self):
        whole = normal(1, 2, 2)[:, ::2]  # of rank 1 [1, 1] with strides of 2
        w = normal(2, N, 1)
        for y in run(2, lambda group: st.all_gather_matmul(whole[group.rank:group.rank + 1], w, group=group)):
            self.assert_close(y, whole.double() @ w.double().t())

    def test_leading_dimensions_of_which_any_is_dealt(self):
        self.check((6, 2, 5))
        self.check((2, 6, 5), dim=1)
        self.check((2, 5, 6), dim=2)

    def test_rows_that_ranks_do_not_divide(self):
        for rows in (1, 4, 7, 11):
            with self.subTest(rows):
                self.check((rows,), rows=rows)
        self.check((2, 7), dim=1, rows=7)

    def test_no_rows(self):
        self.check((0,))
        self.check((4, 0), dim=1)

    def test_one_rank(self):
        self.check((5,), ranks=1)

    def test_inputs_keep_memory_that_can_have_another_size(self):
        """As FSDP gives it."""
        tensors = [(normal(1, 4, K), normal(2, N, K)) for _ in range(2)]
        for y in run(2, lambda group: st.all_gather_matmul(*tensors[group.rank], group=group)):
            self.assertTrue(y.untyped_storage().resizable())
        self.assertTrue(all(one.untyped_storage().resizable() for both in tensors for one in both))


class Scatter(Numbers):
    def check(self, shape, dim=0, biased=False, ranks=RANKS):
        x = [normal(rank, *shape, K) for rank in range(ranks)]
        weight = [normal(10 + rank, N, K) for rank in range(ranks)]
        bias = normal(5, N) if biased else None
        total = sum(F.linear(one.double(), of.double()) for one, of in zip(x, weight))
        total = total + bias.double() if biased else total
        found = run(ranks, lambda group: st.matmul_reduce_scatter(
            x[group.rank], weight[group.rank], bias, group, dim=dim))
        for rank, y in enumerate(found):
            self.assert_close(y, total.movedim(dim, 0)[block(shape[dim], ranks, rank)].movedim(0, dim))

    def test_matrices_and_bias(self):
        self.check((12,))
        self.check((12,), biased=True)

    def test_leading_dimensions_and_rows_that_ranks_do_not_divide(self):
        self.check((2, 6, 3), dim=1)
        for rows in (1, 2, 5, 10):
            with self.subTest(rows):
                self.check((rows,))
        self.check((2, 7), dim=1)

    def test_no_rows(self):
        self.check((0,))

    def test_columns_of_a_wider_tensor(self):
        wide = [normal(rank, 6, 2 * K) for rank in range(RANKS)]
        weight = normal(9, N, K)
        found = run(RANKS, lambda group: st.matmul_reduce_scatter(wide[group.rank][:, ::2], weight, group=group))
        total = sum(one[:, ::2].double() @ weight.double().t() for one in wide)
        for rank, y in enumerate(found):
            self.assert_close(y, total[2 * rank:][:2])


class Reduce(Numbers):
    def setUp(self):
        self.x = [normal(rank, 2, 5, K) for rank in range(RANKS)]
        self.weight = [normal(10 + rank, N, K) for rank in range(RANKS)]
        self.total = sum(x.double() @ w.double().t() for x, w in zip(self.x, self.weight))

    def test_sum_on_every_rank(self):
        bias = normal(5, N)
        for y in run(RANKS, lambda group: st.matmul_all_reduce(
                self.x[group.rank], self.weight[group.rank], bias, group)):
            self.assert_close(y, self.total + bias.double())

    def test_every_rank_has_the_same_bits(self):
        first, *others = run(RANKS, lambda group: st.matmul_all_reduce(
            self.x[group.rank], self.weight[group.rank], group=group))
        for other in others:
            self.assertTrue(torch.equal(first, other))

    def test_norm_of_the_sum_and_the_residual(self):
        residual, scale = normal(7, 2, 5, N), normal(8, N)
        for eps in (1e-6, 0.25):
            total = self.total + residual.double()
            right = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * scale.double()
            for normed, s in run(RANKS, lambda group: st.matmul_all_reduce_add_rms_norm(
                    self.x[group.rank], self.weight[group.rank], residual, scale, eps, group)):
                self.assert_close(normed, right)
                self.assert_close(s, total)

    def test_no_rows(self):
        empty, weight = torch.empty(3, 0, K).bfloat16(), self.weight[0]
        for y in run(2, lambda group: st.matmul_all_reduce(empty, weight, group=group)):
            self.assertEqual(tuple(y.shape), (3, 0, N))


class Mlp(Numbers):
    H, F = 16, 24

    def check(self, activation, shared, biased=False):
        ups = 2 if activation == "swiglu" else 1
        up = [[normal(20 * rank + i, self.F, self.H) / 4 for i in range(ups)] for rank in range(RANKS)]
        bias = [[normal(500 + 20 * rank + i, self.F) for i in range(ups)] for rank in range(RANKS)]
        down = [normal(100 + rank, self.H, self.F) / 4 for rank in range(RANKS)]
        x = normal(3, 2, 6, self.H)

        def right(rank):
            made = [F.linear(x.double(), one.double(), b.double() if biased else None)
                    for one, b in zip(up[rank], bias[rank])]
            hidden = {"swiglu": lambda: F.silu(made[0]) * made[-1], "silu": lambda: F.silu(made[0]),
                      "gelu": lambda: F.gelu(made[0], approximate="tanh")}[activation]()
            return hidden @ down[rank].double().t()

        def call(group):
            own = x[:, block(6, RANKS, group.rank)] if shared else x
            return st.mlp(own, up[group.rank], down[group.rank], group, activation=activation,
                          up_bias=bias[group.rank] if biased else None, sequence_parallel=shared, dim=1)

        total = sum(right(rank) for rank in range(RANKS))
        for rank, y in enumerate(run(RANKS, call)):
            self.assert_close(y, total[:, block(6, RANKS, rank)] if shared else total)

    def test_every_activation_and_way_to_hold_rows(self):
        for activation in ("swiglu", "gelu", "silu"):
            for shared in (False, True):
                for biased in (False, True):
                    with self.subTest(activation=activation, shared=shared, biased=biased):
                        self.check(activation, shared, biased)


class NoRows(Numbers):
    def test_every_operator(self):
        x, w, scale = torch.empty(2, 0, K).bfloat16(), normal(1, N, K), normal(2, N)
        residual = torch.empty(2, 0, N).bfloat16()
        for out in (None, torch.empty(2, 0, N).bfloat16()):
            for call, shape in (
                    (lambda g: st.all_gather_matmul(x, w, group=g, dim=1, out=out), (2, 0, N)),
                    (lambda g: st.all_gather_matmul(x, w, scale, g, dim=1, rows=0, keep_gathered=out is None, out=out),
                     (2, 0, N)),
                    (lambda g: st.matmul_reduce_scatter(x, w, scale, g, dim=1, out=out), (2, 0, N)),
                    (lambda g: st.matmul_all_reduce(x, w, scale, g, out=out), (2, 0, N)),
                    (lambda g: st.column_matmul(x, w, scale, g, out=out), (2, 0, N)),
                    (lambda g: st.matmul_all_reduce_add_rms_norm(x, w, residual, scale, 1e-6, g)[0], (2, 0, N)),
                    (lambda g: st.mlp(x, [w, w], w.t(), g), (2, 0, K)),
                    (lambda g: st.mlp(x, w, w.t(), g, activation="gelu", sequence_parallel=True, dim=1), (2, 0, K))):
                for y in run(2, call):
                    self.assertEqual(tuple(y.shape), shape)

    def test_gradients(self):
        """Of weights they are zeros: nobody has a row."""
        def step(group):
            x, w = torch.empty(0, K).bfloat16().requires_grad_(), normal(1, N, K).requires_grad_()
            b = normal(2, N).requires_grad_()
            y = st.all_gather_matmul(x, w, b, group)
            z = st.matmul_reduce_scatter(y, w.t().contiguous(), group=group)
            st.mlp(z, [w, w], w.t().contiguous(), group).sum().backward()
            return x.grad, w.grad, b.grad
        for dx, dw, db in run(2, step, fallback=True):
            self.assertEqual(tuple(dx.shape), (0, K))
            self.assertFalse(dw.any() or db.any())


if __name__ == "__main__":
    unittest.main()
