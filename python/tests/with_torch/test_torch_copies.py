"""What operators copy of what they are given: nothing of weights that lie below one another, and what the report says."""

import copy
import io
import unittest

from ranks import Copies, Numbers, normal, run

import torch
import torch.nn.functional as F

import stretto.torch as st
from stretto.torch import _kernels, _parts
from stretto.torch.report import APART, GAPS, REORDERED, UNEVEN_ROWS

K, N = 24, 16


class Weights(Numbers):
    """Several weights of one product."""

    def test_below_one_another_are_not_copied(self):
        whole = torch.empty(10, 4)
        parts = list(whole.split([3, 5, 2]))
        self.assertEqual(_parts.joined(parts).data_ptr(), whole.data_ptr())
        copied = _parts.joined([parts[0], parts[2]])
        self.assertNotEqual(copied.data_ptr(), whole.data_ptr())
        self.assertEqual(tuple(copied.shape), (5, 4))

    def test_of_one_row_with_a_stride(self):
        whole, bias = normal(1, 16, K), normal(2, 16)
        weights, biases = [whole[0:8:8], whole[1:2]], [bias[0:8:8], bias[1:2]]  # the first ones' strides say nothing
        x, right = normal(3, 6, K), whole[:2].double()

        def call(group):
            gathered = st.all_gather_matmul(x.chunk(2)[group.rank], weights, biases, group)
            return torch.cat(gathered, -1), torch.cat(st.column_matmul(x, weights, biases, group), -1)

        for found in run(2, call):
            for y in found:
                self.assert_close(y, F.linear(x.double(), right, bias[:2].double()))

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
        # Of one row the second rank gets nothing, and so no copy of it.
        self.check(lambda g: st.matmul_reduce_scatter(x[:1, 0], w, group=g), ("a", UNEVEN_ROWS, 2 * K))
        self.check(lambda g: st.matmul_reduce_scatter(x[0, :3], w, group=g), ("a", UNEVEN_ROWS, 4 * K))

    def test_weights_that_lie_apart(self):
        x, both = normal(1, 2, K), normal(2, 2 * N, K)
        self.check(lambda g: st.all_gather_matmul(x, list(both.split(N)), group=g))
        self.check(lambda g: st.all_gather_matmul(x, [both[:N], both[:N]], group=g), ("b", APART, 2 * N * K))


if __name__ == "__main__":
    unittest.main()
