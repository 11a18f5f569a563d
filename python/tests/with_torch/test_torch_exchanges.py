"""All-to-alls beside products, and look-ups: by the emulator and by PyTorch, of what ranks do not divide too."""

import unittest

from ranks import Numbers, block, normal, run
from test_torch_gradients import EveryRank

import torch
import torch.nn.functional as F

import stretto.torch as st
from stretto.torch._columns import block_of

K, N = 24, 48


def columns(total, ranks, rank, dtype=torch.bfloat16):
    each = block_of(total, ranks, dtype.itemsize)
    return slice(rank * each, min((rank + 1) * each, total))


class Products(Numbers):
    def check(self, shape, dim=0, rows=None, n=N, k=K, biased=False, dtype=torch.bfloat16, ranks=3, fallback=False):
        """x of all ranks has `shape`, of which dimension `dim` is dealt."""
        x, weight = normal(1, *shape, k, dtype=dtype), normal(2, n, k, dtype=dtype)
        bias = normal(3, n, dtype=dtype) if biased else None
        y = F.linear(x.double(), weight.double(), bias.double() if biased else None)

        def mine(tensor, rank):
            return tensor.movedim(dim, 0)[block(shape[dim], ranks, rank)].movedim(0, dim)

        found = run(ranks, lambda g: st.matmul_all_to_all(mine(x, g.rank), weight, bias, g, dim=dim, rows=rows),
                    fallback)
        for rank, one in enumerate(found):
            self.assertTrue(one.is_contiguous())
            self.assert_close(one, y[..., columns(n, ranks, rank, dtype)], dtype)
        found = run(ranks, lambda g: st.all_to_all_matmul(x[..., columns(k, ranks, g.rank, dtype)], weight, bias, g,
                                                          dim=dim), fallback)
        for rank, one in enumerate(found):
            self.assertTrue(one.is_contiguous())
            self.assert_close(one, mine(y, rank), dtype)
        if not fallback and x.numel() > 0:
            self.assertEqual(st.report().served, {"all_to_all_matmul": ranks})

    def test_matrices(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with self.subTest(dtype):
                self.check((12,), dtype=dtype)
                self.check((12,), biased=True, dtype=dtype)

    def test_leading_dimensions_of_which_any_is_dealt(self):
        self.check((6, 2, 5))
        self.check((2, 6, 5), dim=1, biased=True)
        self.check((2, 5, 6), dim=-2 + 4)

    def test_rows_that_ranks_do_not_divide(self):
        for rows in (1, 4, 7):
            with self.subTest(rows):
                self.check((rows,), rows=rows)
        self.check((2, 7), dim=1, rows=7, biased=True)

    def test_columns_that_ranks_do_not_divide(self):
        self.assertEqual([columns(100, 3, rank) for rank in range(3)], [slice(0, 40), slice(40, 80), slice(80, 100)])
        self.check((12,), n=100, k=40, biased=True)
        self.check((7,), rows=7, n=50, k=70)
        self.check((6,), n=20, k=22, dtype=torch.float32)

    def test_no_rows_and_one_rank(self):
        self.check((0,))
        self.check((4, 0), dim=1, biased=True)
        self.check((5,), ranks=1, biased=True)

    def test_pytorch_serves_the_rest(self):
        self.check((12,), dtype=torch.float64, fallback=True)
        self.check((2, 7), dim=1, rows=7, n=50, k=70, biased=True, dtype=torch.float64, fallback=True)
        self.assertIn("float64", str(st.report()))

    def test_results_are_written_where_the_caller_says(self):
        x, weight, bias = normal(1, 6, K), normal(2, N, K), normal(3, N)

        def call(group):
            for biased in (None, bias):
                out = torch.full((18, N // 3), float("nan")).bfloat16()
                self.assertIs(st.matmul_all_to_all(x, weight, biased, group, out=out), out)
                self.assertTrue(torch.equal(out, st.matmul_all_to_all(x, weight, biased, group)))
                back = torch.full((6, N), float("nan")).bfloat16()
                st.all_to_all_matmul(out[:, :K // 3].contiguous(), weight, biased, group, out=back)
                self.assertTrue(torch.equal(back, st.all_to_all_matmul(out[:, :K // 3], weight, biased, group)))
            with self.assertRaisesRegex(ValueError, r"^matmul_all_to_all: out is \[6, 48\]; \[18, 16\] is what comes"):
                st.matmul_all_to_all(x, weight, None, group, out=back)
            with self.assertRaisesRegex(ValueError, "all_to_all_matmul: out has no gradient"):
                st.all_to_all_matmul(out[:, :K // 3], weight.clone().requires_grad_(), None, group, out=back)
        run(3, call)

    def test_what_is_refused(self):
        x, weight = normal(1, 6, K), normal(2, N, K)
        for call, message in (
                (lambda g: st.matmul_all_to_all(x, weight[:, :8], group=g), r"weight is \[48, 8\]; \[N, 24\] goes"),
                (lambda g: st.matmul_all_to_all(x, weight[:16], group=g), "16 columns of weight.T are dealt to 3 ranks "
                 "in blocks of 8, which leaves none for the last: take more, or a multiple of 3"),
                (lambda g: st.matmul_all_to_all(x, weight, group=g, rows=20), "of rows=20 rank . of 3 has [67]"),
                (lambda g: st.all_to_all_matmul(x, weight, group=g),
                 r"x is \[6, 24\]; of 24 columns, as weight \[48, 24\] has, rank . of 3 has 8"),
                (lambda g: st.all_to_all_matmul(x[:, :8], weight, x[0], g), r"bias is \[24\]; \[48\] goes with")):
            with self.assertRaisesRegex(ValueError, message):
                run(3, call)


class LookUps(Numbers):
    S, D, POOL = 9, 8, 3

    def numbers(self, bags, tables):
        """Ragged, with what is no row."""
        generator = torch.Generator().manual_seed(bags)
        ids = torch.randint(-2, self.S + 1, (bags, tables, self.POOL), generator=generator, dtype=torch.int32)
        if bags:
            ids[0, 0] = torch.tensor([1 << 30, 4, 4])
        return ids

    @staticmethod
    def right(ids, tables, mode):
        rows = []
        for bag in ids.tolist():
            rows.append(torch.stack([sum((table[i] for i in slots if 0 <= i < len(table)), torch.zeros_like(table[0]))
                                     / (max(1, sum(0 <= i < len(table) for i in slots)) if mode == "mean" else 1)
                                     for table, slots in zip(tables, bag)]))
        return torch.stack(rows)

    def check(self, bags, num_tables, ranks, mode="sum", dtype=torch.bfloat16, kind=torch.int32, fallback=False,
              d=D):
        ids, tables = self.numbers(bags, num_tables), normal(1, num_tables, self.S, d, dtype=dtype)
        right = self.right(ids, tables.double(), mode)

        def call(group):
            own = block(num_tables, ranks, group.rank)
            return st.embedding_all_to_all(ids[:, own].to(kind), tables[own], group, mode=mode, num_tables=num_tables)
        for rank, found in enumerate(run(ranks, call, fallback)):
            self.assert_close(found, right[block(bags, ranks, rank)], dtype)
        if not fallback:
            self.assertEqual(st.report().served, {"embedding_all_to_all": ranks})

    def test_sums_and_means(self):
        for mode in ("sum", "mean"):
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                with self.subTest(mode=mode, dtype=dtype):
                    self.check(12, 6, 3, mode, dtype)

    def test_bags_and_tables_that_ranks_do_not_divide(self):
        for bags, tables, ranks in ((7, 6, 3), (2, 5, 3), (11, 7, 4), (5, 3, 1)):
            with self.subTest(bags=bags, tables=tables, ranks=ranks):
                self.check(bags, tables, ranks, "mean", kind=torch.int64, d=10)

    def test_pytorch_serves_the_rest(self):
        for mode in ("sum", "mean"):
            self.check(7, 5, 3, mode, torch.float64, fallback=True)
        self.assertIn("float64", str(st.report()))

    def test_numbers_of_64_bits(self):
        """Are no rows beyond the table, whatever their lower half says; by Stretto, by PyTorch, and for gradients."""
        ids = torch.tensor([[[1, (1 << 32) + 1, -(1 << 32) + 2]], [[2, -1, 8]]])
        for dtype in (torch.bfloat16, torch.float64):
            def call(group):
                tables = normal(1, 1, self.S, self.D, dtype=dtype).requires_grad_()
                y = st.embedding_all_to_all(ids, tables, group, mode="mean")
                self.assert_close(y[:, 0], torch.stack([tables[0, 1], (tables[0, 2] + tables[0, 8]) / 2]).detach())
                y.sum().backward()
                self.assertEqual(tables.grad.float().sum(-1).tolist(), [[0, 8, 4, 0, 0, 0, 0, 0, 4]])
            run(1, call, fallback=dtype is torch.float64)

    def test_numbers_of_other_types(self):
        """Of which none is cut off."""
        tables, right = normal(1, 1, self.S, self.D), [1, 0, 0, 0, 0, 0, 0, 0, 0]
        for kind, many in ((torch.uint64, [1, (1 << 32) + 1, (1 << 63) + 2]),
                           (torch.uint32, [1, (1 << 32) - 1, 1 << 31]), (torch.uint8, [1, 255, 9]), (torch.int16, [1, -1, 9])):
            ids = torch.tensor([[many]], dtype=kind)

            def call(group):
                own = tables.clone().requires_grad_()
                y = st.embedding_all_to_all(ids, own, group)
                self.assertTrue(torch.equal(y[0, 0], tables[0, 1]))
                y.sum().backward()
                self.assertEqual(own.grad[0, :, 0].tolist(), [0, *right[:-1]])
            with self.subTest(kind=kind):
                run(1, call)

    def test_no_bags_and_no_indices(self):
        def call(group):
            tables = normal(1, 2, self.S, self.D)
            nothing = st.embedding_all_to_all(torch.empty(0, 2, 3, dtype=torch.int32), tables, group)
            zeros = st.embedding_all_to_all(torch.empty(5, 2, 0, dtype=torch.int32), tables, group)
            self.assertEqual((tuple(nothing.shape), zeros.any().item()), ((0, 4, self.D), False))
            return zeros
        self.assertEqual([tuple(one.shape) for one in run(2, call)], [(3, 4, self.D), (2, 4, self.D)])

    def test_results_are_written_where_the_caller_says(self):
        def call(group):
            ids, tables = self.numbers(6, 2), normal(group.rank, 2, self.S, self.D)
            out = torch.full((3, 4, self.D), float("nan")).bfloat16()
            self.assertIs(st.embedding_all_to_all(ids, tables, group, out=out), out)
            self.assertTrue(torch.equal(out, st.embedding_all_to_all(ids, tables, group)))
            with self.assertRaisesRegex(ValueError, "^embedding_all_to_all: out overlaps tables: give it"):
                st.embedding_all_to_all(ids[:2], tables, group, out=tables.view(-1)[:4 * self.D].view(1, 4, self.D))
        run(2, call)

    def test_what_is_refused(self):
        ids, tables = self.numbers(6, 2), normal(1, 2, self.S, self.D)
        for given, more, message in (
                ((ids.float(), tables), {}, r"ids is torch.float32 .*whole numbers \[bags, 2, pool\] go with"),
                ((ids.to(torch.complex64), tables), {}, "ids is torch.complex64 .*whole numbers"),
                ((ids[:, :1], tables), {}, r"ids is torch.int32 \[6, 1, 3\]; whole numbers \[bags, 2, pool\] go"),
                ((ids, tables[0]), {}, r"tables is torch.bfloat16 \[9, 8\]; floats \[tables, rows, columns\]"),
                ((ids, tables[:, :0]), {}, r"tables is torch.bfloat16 \[2, 0, 8\]; floats .* one row and column at"),
                ((ids, tables[..., :0]), {}, r"tables is torch.bfloat16 \[2, 9, 0\]; floats "),
                ((ids, tables), {"mode": "max"}, "mode is 'max'; it is one of sum, mean"),
                ((ids, tables), {"num_tables": 8}, r"tables is \[2, 9, 8\]; of 8 tables rank . of 3 has [32]"),
                ((ids, tables), {"num_tables": 4}, "4 tables are dealt to 3 ranks in blocks of 2, which leaves none "
                                                   "for the last: take 3 or 5")):
            with self.assertRaisesRegex(ValueError, f"^embedding_all_to_all: .*{message}"):
                run(3, lambda g: st.embedding_all_to_all(*given, g, **more))


class Gradients(Numbers):
    """Against differences in fp64, which PyTorch serves under the same formulas; then by Stretto."""

    def check(self, function, dealt, shared=(), ranks=2):
        tensors = [normal(100 * rank + i, *shape, dtype=torch.float64).requires_grad_()
                   for rank in range(ranks) for i, shape in enumerate(dealt)]
        tensors += [normal(900 + i, *shape, dtype=torch.float64).requires_grad_() for i, shape in enumerate(shared)]
        with st.Threads(ranks, timeout_s=60) as threads:
            self.assertTrue(torch.autograd.gradcheck(
                lambda *given: EveryRank.apply(function, threads, len(dealt), False, *given), tensors))

    def test_differences(self):
        for dim, shape in ((0, (2, 2, 3)), (1, (2, 1, 3))):
            self.check(lambda g, x, w, b: st.matmul_all_to_all(x, w, b, g, dim=dim), [shape], [(4, 3), (4,)])
            self.check(lambda g, x: st.matmul_all_to_all(x, normal(5, 4, 3, dtype=torch.float64), group=g, dim=dim),
                       [shape])
        for dim, shape in ((0, (4, 1, 2)), (1, (2, 3, 2))):
            self.check(lambda g, x, w, b: st.all_to_all_matmul(x, w, b, g, dim=dim), [shape], [(3, 4), (3,)])
            self.check(lambda g, x: st.all_to_all_matmul(x, normal(5, 3, 4, dtype=torch.float64), group=g, dim=dim),
                       [shape])

    def test_rows_and_columns_that_ranks_do_not_divide(self):
        def there(group, x, w, b):
            return st.matmul_all_to_all(x if group.rank == 0 else x[:1], w, b, group, rows=3)
        self.check(there, [(2, 3)], [(3, 3), (3,)])

        def back(group, x, w, b):
            return st.all_to_all_matmul(x if group.rank == 0 else x[:, :1], w, b, group)
        self.check(back, [(3, 2)], [(4, 3), (4,)])

    def test_tables(self):
        ids = torch.tensor([[[0, 2], [1, -1]], [[2, 2], [5, -1]], [[-1, -1], [0, 1]]], dtype=torch.int32)
        for mode in ("sum", "mean"):
            self.check(lambda g, tables: st.embedding_all_to_all(ids, tables, g, mode=mode), [(2, 3, 2)])

    def test_of_x_is_stretto_again(self):
        x, weight = normal(1, 6, K), normal(2, N, K)

        def step(group):
            own = x.clone().requires_grad_()
            hidden = st.matmul_all_to_all(own, weight, group=group)
            y = st.all_to_all_matmul(hidden, weight.t().contiguous(), group=group)
            y.float().square().sum().backward()
            return own.grad
        found = run(3, step)
        self.assertEqual(st.report().served, {"matmul_all_to_all": 6, "all_to_all_matmul": 6})
        wide = x.double().requires_grad_()
        (wide @ weight.double().t() @ weight.double()).square().sum().backward()
        for one in found:
            self.assert_close(one, wide.grad)


class Tracing(Numbers):
    def test_pytorchs_checks(self):
        """Of schema, fake kernel, autograd and tracing, in a group of one rank."""
        ops, ids = torch.ops.stretto, torch.tensor([[[0, 2], [1, -1]], [[2, 2], [5, -1]]], dtype=torch.int32)
        x, weight, bias = normal(1, 4, K).requires_grad_(), normal(2, N, K).requires_grad_(), normal(3, N)
        with st.Threads(1, timeout_s=60) as threads:
            name = threads.groups[0].name
            for op, given in (
                    (ops.matmul_all_to_all, (x, weight, bias.requires_grad_(), name)),
                    (ops.all_to_all_matmul, (x, weight, None, name)),
                    (ops.embedding_all_to_all, (ids, normal(4, 2, 3, 8).requires_grad_(), name, "mean")),
                    (ops.all_to_all, (x.detach(), name, True, K, K)), (ops.all_reduce, (x.detach(), name))):
                torch.library.opcheck(op.default, given)

    def test_nothing_breaks_a_compiled_graph(self):
        ids = torch.tensor([[[0, 2], [1, -1]], [[2, 2], [5, -1]]], dtype=torch.int32)
        x, weight, bias, tables = normal(1, 4, K), normal(2, N, K), normal(3, N), normal(4, 2, 3, N)
        with st.Threads(1, timeout_s=60) as threads:
            name = threads.groups[0].name

            def function(x, weight, bias, tables):
                hidden = st.matmul_all_to_all(x, weight, bias, name)
                y = st.all_to_all_matmul(hidden, weight.t().contiguous(), group=name)
                return y.sum() + st.embedding_all_to_all(ids, tables, name).float().square().sum()

            for dynamic in (False, True):
                torch._dynamo.reset()
                eager = [one.clone().requires_grad_() for one in (x, weight, bias, tables)]
                traced = [one.clone().requires_grad_() for one in (x, weight, bias, tables)]
                right = function(*eager)
                got = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)(*traced)
                self.assert_close(got, right, torch.bfloat16)
                right.backward(), got.backward()
                for one, other in zip(traced, eager):
                    self.assert_close(one.grad, other.grad, torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
