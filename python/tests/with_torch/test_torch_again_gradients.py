"""Calls that come again with gradients, which are the dispatcher's operator's."""

import unittest
from unittest import mock

from ranks import normal  # first: without PyTorch it skips
from again import Calls

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import stretto
import stretto.torch as st
from stretto.torch import _again, _records, _trained, functional
from stretto.torch._checked import Checked


class Gradients(Calls):
    def test_gradients_come_again(self):
        """Though they say how many rows there are, which others than even ones need."""
        x, w, group = self.x.clone().requires_grad_(), self.w, self.group
        square = torch.zeros(64, 64).bfloat16()
        for call in (lambda: st.matmul_all_to_all(x, w, group=group),
                     lambda: st.all_to_all_matmul(x, square, group=group)):
            for _ in range(2):
                y = call()
                y.backward(torch.zeros_like(y))
            self.assertEqual(self.ways()[2:], ["again"] * 2)
        with self.assertRaisesRegex(ValueError, "of rows=3 rank 0 of 1 has 3"):
            torch.ops.stretto.all_gather_matmul(self.x, [w], [], group.name, 0, 3)

    def test_tangents(self):
        """A call that came before has none, so that one with a tangent must not be taken for it."""
        scale, residual = torch.ones(32).bfloat16(), torch.zeros(2, 4, 32).bfloat16()
        ids, weights = torch.zeros(2, 4, 2).int(), torch.zeros(2, 4, 2)
        experts = [torch.zeros(3, *shape).bfloat16() for shape in ((16, 64), (16, 64), (64, 16))]
        for call in (lambda x: st.all_gather_matmul(x, self.w, group=self.group),
                     lambda x: st.all_gather_matmul(x, [self.w, self.w], group=self.group, dim=1),
                     lambda x: st.matmul_all_reduce(x, self.w, group=self.group),
                     lambda x: st.matmul_reduce_scatter(x, self.w, group=self.group),
                     lambda x: st.matmul_all_reduce_add_rms_norm(x, self.w, residual, scale, group=self.group),
                     lambda x: st.mlp(x, [self.w, self.w], self.w.t(), self.group),
                     lambda x: st.moe(x, ids, weights, *experts, self.group),
                     lambda x: st.matmul_all_to_all(x, self.w, group=self.group),
                     lambda x: st.all_to_all_matmul(x, self.w, group=self.group),
                     lambda x: st.embedding_all_to_all(ids, x.transpose(0, 1), self.group),
                     lambda x: st.column_matmul(x, [self.w, self.w], group=self.group)):
            call(self.x)
            call(self.x)
            self.enqueued.clear()
            with forward_ad.dual_level():
                with self.assertRaisesRegex(ValueError, "^[a-z_]+: a tensor has a tangent, .*by backward"):
                    call(forward_ad.make_dual(self.x, torch.ones_like(self.x)))
                self.assertEqual(self.ways(), [])
                call(self.x)
            with self.assertRaisesRegex(ValueError, "a tensor has a tangent"):
                torch.func.jvp(call, (self.x,), (self.x,))
            self.enqueued.clear()
        with forward_ad.dual_level():
            x = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            made = st.column_matmul(x, self.w, group=self.group)  # PyTorch's product
            self.assertIsNotNone(forward_ad.unpack_dual(made).tangent)

    def test_an_mlp_is_one_node(self):
        """What several would give, and each part's calls come again."""
        def trained(way, joint, is_shared):
            torch.manual_seed(1)
            both = torch.randn(32, 64)
            ups = list(both.split(16)) if joint else [one.clone() for one in both.split(16)]
            tensors = [torch.randn(8, 64), torch.randn(64, 16), *ups[:2], torch.randn(16), torch.randn(16)]
            x, down, *more = [one.requires_grad_() for one in tensors]
            with mock.patch.object(functional._trained, "mlp", way):
                y = functional._mlp_in_parts(x, more[:2], more[2:], down, "swiglu", self.group, is_shared, 0)
            return y, torch.autograd.grad(y.square().sum(), [x, down, *more])

        plain = self.group.options.fallback
        self.group.options.fallback = True  # of fp32, which no call on GPUs has
        try:
            for joint in (False, True):
                for is_shared in (False, True):
                    one, found = trained(_trained.mlp, joint, is_shared)
                    many, right = trained(lambda *_: None, joint, is_shared)
                    self.assertEqual(type(one.grad_fn).__name__, "_MlpBackward")
                    for a, b in zip((one, *found), (many, *right)):
                        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-3)
        finally:
            self.group.options.fallback = plain
        with mock.patch.object(functional, "_keeps_products", lambda tensors: True):
            w, down = self.w.clone().requires_grad_(), self.w.t().contiguous()
            call = lambda: st.mlp(self.x, [w, w], down, self.group)  # noqa: E731
            call()
            self.enqueued.clear()
            call()
            self.assertEqual(self.ways(), ["again"])
            with self.assertRaisesRegex(ValueError, "mlp: weights before swiglu"):
                st.mlp(self.x, [w, w[1:]], down, self.group)

    def test_autograd_knows_what_was_written(self):
        """What it has kept of a tensor that is written since has no gradient any more."""
        kept, scale = torch.zeros(2, 4, 32).bfloat16(), torch.ones(32).bfloat16().requires_grad_()
        for way in ("long", "again"):
            y = kept * scale
            with torch.no_grad():
                st.matmul_all_reduce(self.x, self.w, group=self.group, out=kept)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()
            self.assertEqual(self.ways(), [way])

    def test_gradients(self):
        """The forward pass comes again, too, and the gradients are the dispatcher's operator's."""
        for patched in (mock.patch.object(torch, "empty", torch.ones),  # nothing is written to results here
                        mock.patch.object(_records, "_empty_like", torch.ones_like)):
            patched.start()
            self.addCleanup(patched.stop)
        group = self.group
        parts, both = list(normal(1, 64, 64).split([16, 48])), normal(2, 64)
        x, w, up, down, scale, residual = (normal(3 + i, *shape) for i, shape in enumerate(
            ((2, 4, 64), (32, 64), (32, 64), (64, 32), (32,), (2, 4, 32))))
        bags = torch.tensor([[[0, 1], [2, 9], [-1, 3]]] * 8).int()
        for call, given in (
                (lambda *t: st.all_gather_matmul(*t, group=group), (x, w)),
                (lambda *t: st.all_gather_matmul(*t, group=group), (x, w, scale)),
                (lambda x, *t: torch.cat(st.all_gather_matmul(x, t[:2], t[2:], group), -1),
                 (x, *parts, *both.split([16, 48]))),
                (lambda *t: st.matmul_all_reduce(*t, group=group), (x, w)),
                (lambda *t: st.matmul_all_reduce(*t, group=group), (x, w, scale)),
                (lambda *t: st.matmul_reduce_scatter(*t, group=group), (x, w, scale)),
                (lambda *t: torch.cat(st.matmul_all_reduce_add_rms_norm(*t, 1e-5, group)), (x, w, residual, scale)),
                (lambda x, down, *t: st.mlp(x, t, down, group), (x, down, w, up)),
                (lambda x, down, w, up, *b: st.mlp(x, [w, up], down, group, up_bias=b),
                 (x, down, w, up, scale, -scale)),
                (lambda *t: st.matmul_all_to_all(*t, group=group), (x, w)),
                (lambda *t: st.all_to_all_matmul(*t, group=group), (x, w)),
                (lambda *t: st.matmul_all_to_all(*t, group=group), (x, w, scale)),
                (lambda *t: st.all_to_all_matmul(*t, group=group), (x, w, scale)),
                (lambda *t: torch.cat([one.flatten() for one in st.moe_with_router(*t, 2, group, rows=8)[::2]]),
                 (x, normal(20, 3, 64), normal(21, 3, 16, 64), normal(22, 3, 16, 64), normal(23, 3, 64, 16))),
                (lambda tables: st.embedding_all_to_all(bags, tables, group, mode="mean"), (normal(9, 3, 4, 8),))):
            leaves = [one.detach().requires_grad_() for one in given]
            with mock.patch.object(_again, "again", lambda *given: None):
                right = call(*leaves)
            self.assertEqual(self.ways(), ["long"])
            y = call(*leaves)
            self.assertEqual(self.ways(), ["again"])
            dy = normal(1, *y.shape)
            expected = torch.autograd.grad(right, leaves, dy)
            for got, one in zip(torch.autograd.grad(y, leaves, dy, retain_graph=True), expected):
                self.assertTrue(torch.equal(got, one))
            for leaf in leaves:  # of one tensor alone
                some = [one if one is leaf else one.detach() for one in leaves]
                got, = torch.autograd.grad(call(*some), leaf, dy)
                with mock.patch.object(_again, "again", lambda *given: None):
                    expected, = torch.autograd.grad(call(*some), leaf, dy)
                self.assertTrue(torch.equal(got, expected))
            self.enqueued.clear()

    def test_gradients_are_of_their_own_call(self):
        """And not of the first that went this way: of its shapes, or of its tensors where two of them were one."""
        for patched in (mock.patch.object(torch, "empty", torch.ones),
                        mock.patch.object(_records, "_empty_like", torch.ones_like)):
            patched.start()
            self.addCleanup(patched.stop)
        group = self.group
        x, w, up, down = (normal(20 + i, *shape) for i, shape in enumerate(((2, 4, 64), (32, 64), (32, 64), (64, 32))))
        small, large, bags = normal(24, 3, 4, 8), normal(25, 5, 6, 16), torch.arange(-1, 5).int().view(2, 1, 3)
        look_up = lambda tables: st.embedding_all_to_all(  # noqa: E731
            bags.expand(2, len(tables), 3).contiguous(), tables, group)
        mlp = lambda x, down, *ups: st.mlp(x, [*ups, ups[0]][:2], down, group)  # noqa: E731
        for call, given in ((look_up, (small,)), (look_up, (large,)), (look_up, (small.float().half(),)),
                            (mlp, (x, down, w)), (mlp, (x, down, w, up))):
            leaves = [one.detach().requires_grad_() for one in given]
            with mock.patch.object(_again, "again", lambda *given: None):
                right = call(*leaves)
            got, dy = call(*leaves), normal(26, *right.shape).to(right.dtype)
            self.assertEqual(self.ways()[-1], "again")
            for one, other in zip(torch.autograd.grad(got, leaves, dy), torch.autograd.grad(right, leaves, dy)):
                self.assertTrue(torch.equal(one, other))

    def test_checkpoints(self):
        """What was not kept is computed again, by a call that came before."""
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()

        def function(x, w):
            return st.matmul_all_reduce(torch.nn.functional.silu(st.all_gather_matmul(x, w, group=self.group)),
                                        w.t().contiguous(), group=self.group)
        function(x, w)
        self.ways()
        checkpoint(function, x, w, use_reentrant=False).sum().backward()
        self.assertEqual(self.ways()[:2], ["again"] * 2)
        self.assertEqual((x.grad.shape, w.grad.shape), (x.shape, w.shape))


class GradientsInPython(Gradients):
    way = Checked


if __name__ == "__main__":
    unittest.main()
