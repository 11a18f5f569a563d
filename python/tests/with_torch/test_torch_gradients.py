"""Gradients: exact against differences in fp64, and of Stretto's own runs against PyTorch's."""

import contextlib
import types
import unittest
from unittest import mock

from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F

import stretto.torch as st
from stretto.torch import _backward, _beside, _kernels, functional
from stretto.torch._cuts import sum_gradients

RANKS = 2


class EveryRank(torch.autograd.Function):
    """function(group, *tensors of the rank) on all ranks, as one function of all their tensors.

    Inputs that `shared` ranks have alike come once; what every rank gets alike is `whole` and comes once.
    """

    @staticmethod
    def forward(ctx, function, threads, per_rank, whole, *tensors):
        ranks = len(threads.groups)
        dealt, shared = tensors[:ranks * per_rank], tensors[ranks * per_rank:]
        inputs = [[one.detach().requires_grad_() for one in
                   (*dealt[rank * per_rank:(rank + 1) * per_rank], *shared)] for rank in range(ranks)]

        def forward(group):
            with torch.enable_grad():
                made = function(group, *inputs[group.rank])
            return made if isinstance(made, tuple) else (made,)

        results = threads.run(forward)
        ctx.saved = threads, per_rank, whole, inputs, results
        return tuple(one.detach().clone() for made in (results[:1] if whole else results) for one in made)

    @staticmethod
    def backward(ctx, *gradients):
        threads, per_rank, whole, inputs, results = ctx.saved
        count = len(results[0])

        def backward(group):
            own = gradients if whole else gradients[group.rank * count:][:count]
            return torch.autograd.grad(results[group.rank], inputs[group.rank], own,
                                       retain_graph=True, allow_unused=True)

        found = threads.run(backward)
        dealt = [one for by_rank in found for one in by_rank[:per_rank]]
        return (None, None, None, None, *dealt, *found[0][per_rank:])


class Differences(unittest.TestCase):
    """PyTorch serves fp64, under the same formulas."""

    def check(self, function, dealt, shared=(), whole=False):
        tensors = [normal(100 * rank + i, *shape, dtype=torch.float64).requires_grad_()
                   for rank in range(RANKS) for i, shape in enumerate(dealt)]
        tensors += [normal(900 + i, *shape, dtype=torch.float64).requires_grad_()
                    for i, shape in enumerate(shared)]
        with st.Threads(RANKS, timeout_s=60) as threads:
            self.assertTrue(torch.autograd.gradcheck(
                lambda *given: EveryRank.apply(function, threads, len(dealt), whole, *given), tensors))

    def test_gather(self):
        for keep in (False, True):
            for dim, shape in ((0, (2, 3)), (1, (2, 1, 3))):
                with self.subTest(keep=keep, dim=dim):
                    self.check(lambda group, x, v, w, b, c: tuple(st.all_gather_matmul(
                        x, [v, w], [b, c], group, dim=dim, keep_gathered=keep)),
                        [shape, (2, 3), (1, 3), (2,), (1,)])

    def test_gather_of_rows_that_ranks_do_not_divide(self):
        def call(group, x, w):
            return st.all_gather_matmul(x if group.rank == 0 else x[:1], w, group=group, rows=3)
        self.check(call, [(2, 3), (2, 3)])

    def test_scatter(self):
        for dim, shape in ((0, (4, 3)), (1, (2, 3, 3))):
            with self.subTest(dim=dim):
                self.check(lambda group, x, w, b: st.matmul_reduce_scatter(x, w, b, group, dim=dim),
                           [shape, (2, 3)], [(2,)])

    def test_reduce(self):
        self.check(lambda group, x, w, b: st.matmul_all_reduce(x, w, b, group),
                   [(2, 2, 3), (2, 3)], [(2,)], whole=True)

    def test_norm(self):
        self.check(lambda group, x, w, r, scale: st.matmul_all_reduce_add_rms_norm(x, w, r, scale, 0.1, group),
                   [(3, 2), (4, 2)], [(3, 4), (4,)], whole=True)

    def test_column(self):
        def call(group, w, b, x):
            return st.column_matmul(x, w, b, group)
        self.check(call, [(2, 3), (2,)], [(2, 2, 3)])

    def test_mlp_in_parts(self):
        """What GPUs do, where backward takes what stands between the products."""
        with mock.patch.object(functional, "_keeps_products", lambda tensors: torch.is_grad_enabled()):
            st.reset_report()
            self.test_mlp()
        self.assertIn(("mlp", f"in parts: {functional.KEPT}"), st.report().fallbacks)
        self.assertNotIn("mlp", st.report().served)

    def test_mlp(self):
        for activation, ups in (("swiglu", 2), ("gelu", 1), ("silu", 1)):
            with self.subTest(activation):
                self.check(lambda group, x, *rest: st.mlp(
                    x, rest[1:1 + ups], rest[0], group, activation=activation, up_bias=rest[1 + ups:],
                    sequence_parallel=True), [(2, 3), (3, 2), *[(2, 3)] * ups, *[(2,)] * ups])
                self.check(lambda group, *given: st.mlp(
                    given[-1], given[1:1 + ups], given[0], group, activation=activation),
                    [(3, 2), *[(2, 3)] * ups], [(2, 3)], whole=True)

    def of_rows_and_sums(self):
        def gather(keep, dim, shape, rows=None):
            def call(group, x, v, w):
                own = x if rows is None or group.rank == 0 else x[:1]
                return tuple(st.all_gather_matmul(own, [v, w], group=group, dim=dim, rows=rows, keep_gathered=keep))
            self.check(call, [shape, (2, 3), (1, 3)])
        for keep in (False, True):
            gather(keep, 0, (2, 3))
            gather(keep, 1, (2, 1, 3))
            gather(keep, 0, (2, 3), 3)
        self.check(lambda group, w, b, x: st.column_matmul(x, w, b, group), [(2, 3), (2,)], [(2, 2, 3)])
        self.check(lambda group, v, w, x: tuple(st.column_matmul(x, [v, w], group=group)), [(2, 3), (1, 3)], [(2, 3)])
        for dim, shape in ((0, (4, 3)), (1, (2, 3, 3))):
            self.check(lambda group, x, w, b: st.matmul_reduce_scatter(x, w, b, group, dim=dim), [shape, (2, 3)],
                       [(2,)])
        self.check(lambda group, x, down, gate, up: st.mlp(x, [gate, up], down, group, sequence_parallel=True),
                   [(2, 3), (3, 2), (2, 3), (2, 3)])
        self.check(lambda group, *given: st.mlp(given[-1], given[1:3], given[0], group),
                   [(3, 2), (2, 3), (2, 3)], [(2, 3)], whole=True)

    def test_beside_products(self):
        """What GPUs do: collectives that begin before a product, and are waited for behind it."""
        with mock.patch.object(_backward, "goes_beside", lambda dy, group: group.ranks > 1), \
                mock.patch.object(_backward, "FEWEST_OWN_ROWS", 1), mock.patch.object(_beside, "STEP", 1), \
                mock.patch.object(_beside, "FLOPS_PER_US", 1):
            st.reset_report()
            self.of_rows_and_sums()
            reasons = {op for op, reason in st.report().fallbacks if reason == _backward.BESIDE}
            self.assertEqual(reasons, {"matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"})

    def test_where_turning_a_weight_does_not_pay(self):
        """The product is PyTorch's, and the sum a collective: what GPUs do with few rows. One rank has no sum."""
        with mock.patch.object(_kernels, "pays", lambda *given: False):
            st.reset_report()
            self.of_rows_and_sums()
            reasons = {op for op, reason in st.report().fallbacks if reason == _kernels.TURNED}
            self.assertEqual(reasons, {"matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"})
        with mock.patch(f"{__name__}.RANKS", 1):
            self.check(lambda group, x, v, w: tuple(st.all_gather_matmul(x, [v, w], group=group)),
                       [(2, 3), (2, 3), (1, 3)])
            self.check(lambda group, x, w, b: st.matmul_reduce_scatter(x, w, b, group), [(4, 3), (2, 3)], [(2,)])


class BesideOnGpus(unittest.TestCase):
    """Which stream waits for which, without a GPU."""

    def test_how_much_of_a_product_leaves_sms(self):
        self.assertEqual(_beside.rows_within(150, 14336, 2 * 4096 * 4096), 2816)  # 90 GFLOP
        self.assertEqual(_beside.rows_within(150, 3584, 2 * 4096 * 4096), 3584)  # the rest would be little
        self.assertEqual(_beside.rows_within(15, 100, 2 * 64 * 64), 100)

    def test_what_waits_for_what(self):
        told, current = [], ["main"]

        class Stream:
            def __init__(self, name):
                self.name = name

            def wait_stream(self, other):
                told.append(f"{self.name} waits for {other.name}")

        @contextlib.contextmanager
        def stream(one):
            before, current[0] = current[0], one.name
            yield
            current[0] = before
        cuda = types.SimpleNamespace(
            Stream=lambda device, priority: Stream(f"side of {priority}"), stream=stream,
            current_stream=lambda *device: Stream(current[0]), device=lambda device: contextlib.nullcontext(),
            _sleep=lambda cycles: told.append(f"{current[0]} sleeps"), current_blas_handle=lambda: 1,
            get_device_properties=lambda device: types.SimpleNamespace(multi_processor_count=132))
        device = types.SimpleNamespace(index=3, type="cuda")
        tensor, out = (types.SimpleNamespace(is_cuda=True, device=device, numel=lambda: 64, element_size=lambda: 2)
                       for _ in range(2))
        with mock.patch.object(_beside, "torch", types.SimpleNamespace(cuda=cuda)), \
                mock.patch.dict(_beside._streams, clear=True), \
                mock.patch.object(_beside, "_set_sms", lambda: lambda handle, sms: told.append(f"{sms} SMs")):
            begun = _beside.Beside(lambda *given: told.append(f"{current[0]} sums"), types.SimpleNamespace(ranks=2),
                                   tensor, out, 1e12)
            with _beside._fewer_sms(device):
                told.append("product")
            self.assertIs(begun.wait(), out)
            told.append("short")
            _beside.Beside(lambda *given: told.append(f"{current[0]} sums"), None, tensor, out, 1e6).wait()
        self.assertEqual(told, ["side of -1 waits for main", "side of -1 sums", "main sleeps", "100 SMs", "product",
                                "0 SMs", "main waits for side of -1", "short", "main sums"])


class TrainingStep(Numbers):
    """Gather, activation, scatter in bf16 by Stretto, forth and back, against one rank in fp64."""

    H, F, ROWS = 32, 48, 24

    def test_gradients_are_those_of_one_rank(self):
        up, down = normal(1, self.F, self.H) / 8, normal(2, self.H, self.F) / 8
        x, target = normal(3, self.ROWS, self.H), normal(4, self.ROWS, self.H)
        wide = [one.double().requires_grad_() for one in (x, up, down)]
        loss = (F.silu(wide[0] @ wide[1].t()) @ wide[2].t() - target.double()).square().sum()
        loss.backward()
        ranks = 4
        rows, columns = self.ROWS // ranks, self.F // ranks

        def step(group, op):
            mine, part = slice(group.rank * rows, (group.rank + 1) * rows), slice(
                group.rank * columns, (group.rank + 1) * columns)
            own = [x[mine].clone().requires_grad_(), up[part].clone().requires_grad_(),
                   down[:, part].contiguous().requires_grad_()]
            (op(*own, group) - target[mine]).square().sum().backward()
            return [one.grad for one in own]

        def linears(x, up, down, group):
            hidden = F.silu(st.all_gather_matmul(x, up, group=group, keep_gathered=True))
            return st.matmul_reduce_scatter(hidden, down, group=group)

        def mlp(x, up, down, group):
            return st.mlp(x, up, down, group, activation="silu", sequence_parallel=True)

        for op, served in ((linears, {"all_gather_matmul": 2, "matmul_reduce_scatter": 2}),
                           (mlp, {"mlp": 1, "all_gather_matmul": 2, "matmul_reduce_scatter": 1})):
            found = run(ranks, lambda group: step(group, op))
            for index, dim in ((0, 0), (1, 0), (2, 1)):
                whole = torch.cat([by_rank[index] for by_rank in found], dim)
                self.assert_close(whole, wide[index].grad)
            # Rows are gathered with products, in backward too: PyTorch gathers nothing.
            self.assertEqual(st.report().served, {name: count * ranks for name, count in served.items()})
            self.assertEqual(st.report().fallbacks, {})


class OfGradients(Numbers):
    def test_those_with_exchanges_have_none(self):
        """Which PyTorch would leave out, and go on."""
        x, w, square = (normal(i, *shape, dtype=torch.float32) for i, shape in enumerate(((4, 8), (6, 8), (8, 8))))
        experts = [normal(i, 2, 8, 8, dtype=torch.float32) for i in range(3)]
        ids, weights = torch.tensor([[0], [1], [1], [0]]), torch.ones(4, 1)
        tables = normal(4, 1, 2, 8, dtype=torch.float32)
        for op, start, function in (
                ("all_gather_matmul", x, lambda g, x: st.all_gather_matmul(x, [w, w], group=g)[1]),
                ("matmul_reduce_scatter", w, lambda g, w: st.matmul_reduce_scatter(x, w, group=g)),
                ("column_matmul", x, lambda g, x: st.column_matmul(x, w, group=g)),
                ("mlp", x, lambda g, x: st.mlp(x, [square, square], square, g)),
                ("matmul_all_to_all", square, lambda g, w: st.matmul_all_to_all(x, w, group=g)),
                ("all_to_all_matmul", x, lambda g, x: st.all_to_all_matmul(x, normal(5, 6, 16).float(), group=g)),
                ("embedding_all_to_all", tables, lambda g, t: st.embedding_all_to_all(ids[:, None], t, g)),
                ("moe", x, lambda g, x: st.moe(x, ids, weights, *experts, g)),
                ("moe_with_router", x, lambda g, x: st.moe_with_router(x, square[:2], *experts, 1, g)[0])):
            def call(group):
                leaf = start.clone().requires_grad_()
                first, = torch.autograd.grad(function(group, leaf).square().sum(), leaf, create_graph=True)
                plain, = torch.autograd.grad(function(group, leaf).square().sum(), leaf)
                self.assertTrue(torch.equal(first, plain))
                first.square().sum().backward()
            with self.subTest(op=op), self.assertRaisesRegex(
                    RuntimeError, f"^{op}: its gradients have no gradients: take them without create_graph=True"):
                run(2, call)

    def test_those_of_products_alone_have_some(self):
        x, w, residual, scale = (normal(i, *shape, dtype=torch.float64).requires_grad_()
                                 for i, shape in enumerate(((2, 3), (4, 3), (2, 4), (4,))))
        with st.Threads(1, timeout_s=60) as threads:
            name = threads.groups[0].name
            self.assertTrue(torch.autograd.gradgradcheck(
                lambda *both: st.matmul_all_reduce(*both, group=name), (x, w, scale)))
            self.assertTrue(torch.autograd.gradgradcheck(lambda *given: st.matmul_all_reduce_add_rms_norm(
                *given, 1e-5, name), (x, w, residual, scale)))

    def test_transforms_are_refused_in_words_of_their_own(self):
        x, w = normal(1, 4, 8), normal(2, 6, 8)
        calls = (lambda g, x: st.matmul_all_reduce(x, w, group=g), lambda g, x: st.all_gather_matmul(x, w, group=g),
                 lambda g, x: st.column_matmul(x, w, group=g), lambda g, x: st.mlp(x, [w, w], w.t(), g))
        for number, call in enumerate(calls):
            for of_each in (lambda one: one, torch.vmap):
                def program(group):
                    rows = x if of_each is not torch.vmap else x.expand(2, 4, 8)
                    return torch.func.grad(lambda x: of_each(lambda x: call(group, x))(x).float().sum())(rows)

                with self.subTest(number), self.assertRaisesRegex(
                        ValueError, r"^[a-z_]+: inside torch.func.grad\(\), vjp\(\), jacrev\(\) and the like"):
                    run(2, program)
        for y in run(2, lambda g: torch.vmap(lambda x: st.matmul_all_reduce(x, w, group=g))(x.expand(2, 4, 8))):
            self.assert_close(y, (2 * x @ w.t()).expand(2, 4, 6))

    def test_layers_that_ranks_share_say_that_they_have_none(self):
        """What is gathered or added up by PyTorch, and heads' norms, whose gradients are sums."""
        norm, linear = torch.nn.LayerNorm(4), torch.nn.Linear(4, 8)
        embedding = torch.nn.Embedding(8, 4)

        def layers(group):
            own = torch.nn.LayerNorm(4)
            own.load_state_dict(norm.state_dict())
            sum_gradients(own, group.name)
            column = st.ColumnParallelLinear.from_linear(linear, group, sequence_parallel=False, gather_output=True)
            table = st.VocabularyParallelEmbedding.from_embedding(embedding, group)
            return ((own, torch.randn(2, 4), own._parameters["weight"]), (column, torch.randn(2, 4), column.weight),
                    (table, torch.arange(8), table.weight))

        for number in range(3):
            def call(group):
                layer, given, leaf = layers(group)[number]
                first, = torch.autograd.grad(layer(given).pow(3).sum(), leaf, create_graph=True)
                first.square().sum().backward()

            with self.subTest(number), self.assertRaisesRegex(RuntimeError, ": its gradients have no gradients"):
                run(2, call)

    def test_those_of_several_ranks_are_of_all_ranks_terms(self):
        """Of a loss that takes each rank's own gradients, as a penalty of their norm does."""
        def parts(*shape):
            return [normal(seed, *shape, dtype=torch.float64) for seed in (1, 2)]

        xs, ws, bias = parts(2, 3), parts(4, 3), normal(3, 4, dtype=torch.float64)
        residual, scale = normal(4, 2, 4, dtype=torch.float64), normal(5, 4, dtype=torch.float64)

        def reduced(total, b, r, s):
            return (total + b).pow(3).sum()

        def normed(total, b, r, s):
            total = total + r
            return (total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-3) * s).pow(3).sum() + total.sum()

        for right_of, loss_of in ((reduced, lambda x, w, b, r, s, g: st.matmul_all_reduce(x, w, b, g).pow(3).sum()),
                                  (normed, lambda x, w, b, r, s, g: sum(one.pow(power).sum() for one, power in zip(
                                      st.matmul_all_reduce_add_rms_norm(x, w, r, s, 1e-3, g), (3, 1))))):
            own = [[one.clone().requires_grad_() for one in (xs[rank], ws[rank])] for rank in range(2)]
            alike = [one.clone().requires_grad_() for one in (bias, residual, scale)]
            first = torch.autograd.grad(right_of(sum(x @ w.t() for x, w in own), *alike), own[0] + own[1],
                                        create_graph=True)
            sum(one.square().sum() for one in first).backward()

            def call(group):
                x, w, *others = (one.clone().requires_grad_() for one in (
                    xs[group.rank], ws[group.rank], bias, residual, scale))
                made = torch.autograd.grad(loss_of(x, w, *others, group), (x, w), create_graph=True)
                sum(one.square().sum() for one in made).backward()
                return x.grad, w.grad, [one.grad for one in others]

            for rank, (dx, dw, dalike) in enumerate(run(2, call, fallback=True)):
                for got, leaf in zip((dx, dw, *dalike), (*own[rank], *alike)):
                    if leaf.grad is not None and got is not None:
                        self.assert_close(got / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max())
                    self.assertEqual(got is None, leaf.grad is None)

            def third(group):
                x, w = xs[group.rank].clone().requires_grad_(), ws[group.rank]
                made, = torch.autograd.grad(loss_of(x, w, bias, residual, scale, group), x, create_graph=True)
                again, = torch.autograd.grad(made.pow(3).sum(), x, create_graph=True)
                again.sum().backward()

            with self.assertRaisesRegex(RuntimeError, "its gradients have no gradients"):
                run(2, third, fallback=True)


if __name__ == "__main__":
    unittest.main()
