"""Operators on the emulator, ranks as threads: what comes out is what PyTorch says, for every layout."""

import copy
import io
import unittest

from ranks import Copies, Numbers, normal, run

import torch
import torch.nn.functional as F

import stretto.torch as st
from stretto.torch import _kernels, _parts, ops
from stretto.torch.report import APART, GAPS, REORDERED, UNEVEN_ROWS

RANKS, K, N = 3, 24, 16


def block(total, ranks, rank):
    size = -(-total // ranks)
    return slice(min(rank * size, total), min((rank + 1) * size, total))


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

    def test_weights_below_one_another_are_not_copied(self):
        whole = torch.empty(10, 4)
        parts = list(whole.split([3, 5, 2]))
        self.assertEqual(_parts.joined(parts).data_ptr(), whole.data_ptr())
        copied = _parts.joined([parts[0], parts[2]])
        self.assertNotEqual(copied.data_ptr(), whole.data_ptr())
        self.assertEqual(tuple(copied.shape), (5, 4))

    def test_weights_of_one_row_with_a_stride(self):
        whole, bias = normal(1, 16, K), normal(2, 16)
        weights, biases = [whole[0:8:8], whole[1:2]], [bias[0:8:8], bias[1:2]]  # the first ones' strides say nothing
        x, right = normal(3, 6, K), whole[:2].double()

        def call(group):
            gathered = st.all_gather_matmul(x.chunk(2)[group.rank], weights, biases, group)
            return torch.cat(gathered, -1), torch.cat(st.column_matmul(x, weights, biases, group), -1)

        for found in run(2, call):
            for y in found:
                self.assert_close(y, F.linear(x.double(), right, bias[:2].double()))

    def test_inputs_keep_memory_that_can_have_another_size(self):
        """As FSDP gives it."""
        tensors = [(normal(1, 4, K), normal(2, N, K)) for _ in range(2)]
        for y in run(2, lambda group: st.all_gather_matmul(*tensors[group.rank], group=group)):
            self.assertTrue(y.untyped_storage().resizable())
        self.assertTrue(all(one.untyped_storage().resizable() for both in tensors for one in both))


class Weights(Numbers):
    """Several weights of one product."""

    def test_products_of_whole_rows_copy_none(self):
        x = normal(1, 2, 3, K)
        weights, biases = [normal(2, N, K), normal(3, N + 4, K)], [normal(4, N), normal(5, N + 4)]
        right = torch.cat([F.linear(x, *one) for one in zip(weights, biases)], -1)

        def call(group):
            for given in ([], biases):
                for target in (None, torch.empty_like(right)):
                    with Copies(N * K) as copies:
                        made = _kernels.column_matmul(x, weights, given, group.name, target)
                    self.assertEqual(copies.found, [])
                    self.assert_close(made, right if given else F.linear(x, torch.cat(weights)))
            joint = st.column_matmul(x, weights, biases, group)
            self.assertEqual(joint[0].untyped_storage().data_ptr(), joint[1].untyped_storage().data_ptr())

        run(2, call)

    def test_those_of_a_copied_mlp_lie_below_one_another(self):
        gate, up, down = (torch.nn.Linear(*sizes, bias=False) for sizes in ((K, N), (K, N), (N, K)))

        def program(group):
            mlp, kept = st.ParallelMLP.from_linears(gate, up, down, group=group), io.BytesIO()
            torch.save(mlp, kept)
            kept.seek(0)
            for other in (copy.deepcopy(mlp), copy.deepcopy(torch.nn.Sequential(mlp))[0],
                          torch.load(kept, weights_only=False)):
                weights = other.gate_proj.weight, other.up_proj.weight
                self.assertTrue(_parts.are_behind(weights))
                self.assertTrue(torch.equal(torch.cat(weights), torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])))
                self.assertNotEqual(weights[0].data_ptr(), mlp.gate_proj.weight.data_ptr())

        run(2, program)

    def test_those_of_an_mlp_lie_below_one_another(self):
        linears = [torch.nn.Linear(K, N, bias=True) for _ in ("gate", "up")]
        down = torch.nn.Linear(N, K, bias=False)

        def program(group):
            mlp = st.ParallelMLP.from_linears(*linears, down, group=group)
            kept = list(mlp.parameters())

            def check(doing, dtype=torch.float32):
                for name in ("weight", "bias"):
                    parts = [getattr(one, name) for one in (mlp.gate_proj, mlp.up_proj)]
                    self.assertTrue(_parts.are_behind(parts), f"{name} {doing}")
                    share = N // group.ranks
                    for part, whole in zip(parts, linears):
                        right = getattr(whole, name).detach()[share * group.rank:][:share].to(dtype)
                        self.assertTrue(torch.equal(part, right), f"{name} {doing}")
                with Copies(K * N // group.ranks) as copies:
                    _parts.joined([mlp.gate_proj.weight, mlp.up_proj.weight])
                self.assertEqual(copies.found, [])

            check("as it is made")
            cut = mlp.up_proj.cuts["weight"]
            self.assertFalse(cut.own(linears[1].weight).requires_grad)  # threads may wait for each other in autograd
            self.assertEqual([id(one) for one in mlp.to(torch.bfloat16).parameters()], [id(one) for one in kept])
            check("when it is cast", torch.bfloat16)
            whole = {"gate_proj.weight": linears[0].weight, "up_proj.weight": linears[1].weight}
            mlp.float().load_state_dict(whole, strict=False, assign=True)
            for one, linear in zip((mlp.gate_proj, mlp.up_proj), linears):  # casting has rounded them
                one.bias.data.copy_(linear.bias.data.chunk(group.ranks)[group.rank])
            check("when it has loaded a state")
            mlp(torch.ones(group.ranks, K)).sum().backward()
            self.assertTrue(all(one.grad is not None for one in mlp.parameters()))

        run(2, program)


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


class Copied(Numbers):
    """What is copied for a call stands in the report, with the reason."""

    def check(self, call, *copied):
        """`copied` are (tensor, why, elements) of an operator's call on each of two ranks."""
        run(2, call)
        op, = st.report().served
        self.assertEqual(st.report().copies, {(op, name, why): (2, 2 * 2 * count) for name, why, count in copied})

    def test_views(self):
        x, w = normal(1, 4, 2 * K), normal(2, N, K)
        self.check(lambda g: st.matmul_all_reduce(x[:, :K], w, group=g), ("a", GAPS, 4 * K))
        self.check(lambda g: st.matmul_all_reduce(x[:, K:].unflatten(0, (2, 2)), w, group=g), ("a", GAPS, 4 * K))
        self.check(lambda g: st.matmul_reduce_scatter(x[::2, :K], w, group=g), ("a", GAPS, 2 * K))
        turned = normal(2, K, N).t()
        self.check(lambda g: st.mlp(x[:, :K].contiguous(), w, turned.t(), g, activation="silu"))
        self.check(lambda g: st.mlp(x[:, :K].contiguous(), w, w.t(), g, activation="silu"), ("wd", GAPS, N * K))
        stacks = [normal(4, 2, N, K), normal(5, 2, N, 2 * K)[..., :K], normal(6, 2, K, N)]
        ids, weights = torch.zeros(4, 1, dtype=torch.int16), torch.ones(4, 1)
        self.check(lambda g: st.moe(x[:, :K].contiguous(), ids, weights, *stacks, g),
                   ("wu", GAPS, 2 * N * K), ("ids", "cast from int16", 4 * 2))

    def test_rows_of_other_dimensions_and_that_ranks_do_not_divide(self):
        x, w = normal(1, 3, 4, K), normal(2, N, K)
        self.check(lambda g: st.matmul_reduce_scatter(x, w, group=g, dim=1), ("a", REORDERED, 3 * 4 * K),
                   ("out", REORDERED, 3 * 2 * N))
        self.check(lambda g: st.matmul_reduce_scatter(x[0, :3], w, group=g), ("a", UNEVEN_ROWS, 4 * K))

    def test_weights_that_lie_apart(self):
        x, both = normal(1, 2, K), normal(2, 2 * N, K)
        self.check(lambda g: st.all_gather_matmul(x, list(both.split(N)), group=g))
        self.check(lambda g: st.all_gather_matmul(x, [both[:N], both[:N]], group=g), ("b", APART, 2 * N * K))


if __name__ == "__main__":
    unittest.main()
