"""Parts of mixtures of experts by themselves, by the emulator, and their gradients beside PyTorch's of the whole."""

import unittest

from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F

import stretto.torch as st

T, H, WIDTH, EXPERTS, K = 12, 16, 32, 6, 2


def tensors(dtype):
    """x, ids, weights, gate, up, down of all ranks; one choice is no expert's."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.stack([torch.randperm(EXPERTS, generator=generator)[:K] for _ in range(T)])
    ids[5, 1] = -1
    return [normal(1, T, H, dtype=dtype), ids, normal(3, T, K, dtype=torch.float32).abs(),
            *(normal(seed, EXPERTS, *shape, dtype=dtype) / 4
              for seed, shape in ((4, (WIDTH, H)), (5, (WIDTH, H)), (6, (H, WIDTH))))]


def right(x, ids, weights, gate, up, down):
    y = []
    for token in range(T):
        parts = [weights[token, c] * (down[e] @ (F.silu(gate[e] @ x[token]) * (up[e] @ x[token])))
                 for c, e in enumerate(ids[token].tolist()) if e >= 0]
        y.append(sum(parts))
    return torch.stack(y)


class Halves(Numbers):
    def rights(self, given, dy):
        """y, and gradients of all that has one."""
        wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in given]
        y = right(*wide)
        y.backward(dy.double())
        return y.detach(), [one.grad for one in wide]

    def part(self, tensor, rank, ranks, dim=0):
        return tensor.chunk(ranks, dim)[rank].contiguous().clone().requires_grad_(tensor.is_floating_point())

    def check(self, ranks, call, cuts, dtype, of_ids):
        """call(group, x, ids, weights, gate, up, down) -> y, of what `cuts` says: dims of parts; None: whole."""
        given, dy = tensors(dtype), normal(7, T, H, dtype=dtype)
        given[1] = given[1].to(of_ids)
        y, grads = self.rights(given, dy)

        def program(group):
            mine = [one.clone().requires_grad_(one.is_floating_point()) if cut is None else
                    self.part(one, group.rank, ranks, cut) for one, cut in zip(given, cuts)]
            made = call(group, *mine)
            made.backward(dy.chunk(ranks)[group.rank])
            return [made.detach(), *(one.grad for one in mine)]
        found = run(ranks, program)
        self.assert_close(torch.cat([one[0] for one in found]), y)
        for rank, (_, *mine) in enumerate(found):
            for index, (got, expected, cut) in enumerate(zip(mine, grads, cuts)):
                if expected is None:
                    continue
                with self.subTest(ranks=ranks, rank=rank, gradient=index):
                    self.assert_close(got.to(dtype), expected if cut is None else expected.chunk(ranks, cut)[rank])

    def test_up_and_down_are_the_layer_and_so_are_their_gradients(self):
        def call(group, x, ids, weights, gate, up, down):
            own = ids.chunk(group.ranks)[group.rank]
            return st.moe_down(st.moe_up(x, own, gate, up, group), ids, weights, down, group)
        for ranks in (1, 2, 4):
            for dtype, of_ids in ((torch.bfloat16, torch.int64), (torch.float32, torch.int32)):
                self.check(ranks, call, (0, None, None, 1, 1, 2), dtype, of_ids)

    def test_dispatch_and_combine_around_ones_own_products(self):
        def call(group, x, ids, weights, gate, up, down):
            d, counts = st.dispatch(x, ids, EXPERTS, group)
            first = EXPERTS // group.ranks * group.rank
            self.assertEqual(counts.flatten().tolist(),
                             [int((ids == first + expert).sum()) for expert in range(len(gate))])
            made = torch.zeros_like(d)
            for expert in range(len(gate)):
                rows = (ids.flatten() == first + expert).nonzero(as_tuple=True)[0]
                own = d[rows]
                act = F.silu(F.linear(own, gate[expert])) * F.linear(own, up[expert])
                made = made.index_copy(0, rows, F.linear(act, down[expert]))
            return st.combine(made, ids, weights, EXPERTS, group)
        for ranks in (1, 2, 3):
            for dtype, of_ids in ((torch.bfloat16, torch.int32), (torch.float32, torch.int64)):
                self.check(ranks, call, (0, None, 0, 0, 0, 0), dtype, of_ids)

    def test_rows_of_other_ranks_experts_are_not_looked_at(self):
        given = tensors(torch.float32)

        def call(group):
            x, ids, weights = self.part(given[0], group.rank, 2), given[1], self.part(given[2], group.rank, 2)
            d, _ = st.dispatch(x, ids, EXPERTS, group)
            first = 3 * group.rank
            own = ((ids >= first) & (ids < first + 3)).flatten()[:, None]
            y = st.combine(torch.where(own, d, torch.nan), ids, weights, EXPERTS, group)
            y.sum().backward()
            return [y.detach(), x.grad, weights.grad]
        for mine in run(2, call):
            for one in mine:
                self.assertTrue(torch.isfinite(one).all())

    def test_what_does_not_fit_is_refused(self):
        x, ids, weights, gate, up, down = tensors(torch.bfloat16)
        with st.Threads(1, timeout_s=60) as threads:
            group = threads.groups[0]
            for call, words in ((lambda: st.moe_up(x[0], ids, gate, up, group), "x is"),
                                (lambda: st.moe_up(x, ids.float(), gate, up, group), "whole numbers"),
                                (lambda: st.moe_up(x, ids, gate, up[:, 1:], group), "wu is"),
                                (lambda: st.dispatch(x, ids, "6", group), "experts"),
                                (lambda: st.combine(x, ids, weights, EXPERTS, group), "d is")):
                with self.assertRaisesRegex((ValueError, TypeError), words):
                    call()


if __name__ == "__main__":
    unittest.main()
