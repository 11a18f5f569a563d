"""Mixtures of experts: every expert cut over ranks, and experts dealt to ranks, by the emulator and by PyTorch."""

import itertools
import unittest

from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

import stretto.torch as st

T, H, WIDTH, EXPERTS, K = 12, 16, 32, 6, 2


def chosen(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(EXPERTS, generator=generator)[:K] for _ in range(T)])


class Experts(Numbers):
    def tensors(self, dtype=torch.bfloat16):
        """x, ids, weights, gate, up, down of all ranks."""
        return [normal(1, T, H, dtype=dtype), chosen(2), normal(3, T, K, dtype=torch.float32).abs(),
                normal(4, EXPERTS, WIDTH, H, dtype=dtype) / 4, normal(5, EXPERTS, WIDTH, H, dtype=dtype) / 4,
                normal(6, EXPERTS, H, WIDTH, dtype=dtype) / 5]

    @staticmethod
    def right(x, ids, weights, gate, up, down):
        y = []
        for token in range(len(x)):
            parts = [weights[token, c] * (down[e] @ (F.silu(gate[e] @ x[token]) * (up[e] @ x[token])))
                     for c, e in enumerate(ids[token].tolist()) if 0 <= e < len(gate)]
            y.append(sum(parts) if parts else torch.zeros(H, dtype=x.dtype))
        return torch.stack(y)

    @staticmethod
    def part(tensors, rank, ranks, dealt):
        """A rank's: of tokens a block, the last ones fewer or none."""
        block = -(-len(tensors[0]) // ranks)
        cuts = (0, 0, 0) if dealt else (1, 1, 2)
        return [one[block * rank:][:block].clone() for one in tensors[:3]] + [
            one.chunk(ranks, cut)[rank].contiguous() for one, cut in zip(tensors[3:], cuts)]

    def test_every_expert_cut_and_experts_dealt(self):
        for ranks in (1, 2, 3):
            for dealt in (False, True):
                if not dealt and ranks == 3:  # 32 columns do not divide
                    continue
                with self.subTest(ranks=ranks, dealt=dealt):
                    tensors = self.tensors()
                    found = run(ranks, lambda g: st.moe(*self.part(tensors, g.rank, ranks, dealt), g,
                                                        expert_parallel=dealt))
                    self.assertEqual(st.report().served, {"moe": ranks})
                    right = self.right(*(one.double() if one.is_floating_point() else one for one in tensors))
                    self.assert_close(torch.cat(found), right)

    def test_products_of_ones_own_between_dispatch_and_combine(self):
        """By the counts that a dispatch hands over: rows of an expert are those of a stable sort of all ids."""
        ranks, sizes, tensors = 2, {"t": T, "h": H, "experts": EXPERTS, "k": K}, self.tensors()
        ids = tensors[1].int()

        def call(group):
            x, _, weights, gate, up, down = self.part(tensors, group.rank, ranks, True)
            made = st.run_graph("dispatch", {"x": x, "ids": ids}, group, sizes=sizes)
            order, rows = torch.argsort(ids.flatten(), stable=True), torch.zeros_like(made["d"])
            first = int((ids < group.rank * len(gate)).sum())
            ends = first + made["counts"].flatten().cumsum(0)
            for expert, end in enumerate(ends.tolist()):
                own, first = order[first:end], end
                one = made["d"][own].float()
                act = F.silu(one @ gate[expert].float().t()) * (one @ up[expert].float().t())
                rows[own] = (act.bfloat16().float() @ down[expert].float().t()).bfloat16()
            y = st.run_graph("combine", {"d": rows, "ids": ids, "weights": weights}, group, sizes=sizes)["y"]
            return y, made["counts"].flatten()
        found = run(ranks, call)
        self.assertEqual(torch.cat([counts for _, counts in found]).tolist(),
                         torch.bincount(ids.flatten(), minlength=EXPERTS).tolist())
        self.assertIs(found[0][1].dtype, torch.int32)
        right = self.right(*(one.double() if one.is_floating_point() else one for one in tensors))
        self.assert_close(torch.cat([y for y, _ in found]), right)

    def test_leading_dimensions_types_of_ids_and_ids_of_no_expert(self):
        tensors = self.tensors()
        tensors[1][0], tensors[1][1, 0] = -1, EXPERTS + 3
        right = self.right(*(one.double() if one.is_floating_point() else one for one in tensors))
        made = []
        for kind, of_weights in ((torch.int32, torch.float32), (torch.int64, torch.float32), (torch.int16, torch.float32),
                                 (torch.int64, torch.bfloat16), (torch.int32, torch.bfloat16),
                                 (torch.int32, torch.float16)):
            for dealt in (True, False):
                def call(group):
                    x, ids, weights, *rest = self.part(tensors, group.rank, 2, dealt)
                    return st.moe(x.view(2, 3, H), ids.view(2, 3, K).to(kind), weights.view(2, 3, K).to(of_weights),
                                  *rest, group, expert_parallel=dealt)
                found = run(2, call)
                self.assertEqual(tuple(found[0].shape), (2, 3, H))
                self.assert_close(torch.cat(found).flatten(0, 1), right)
                made.append(torch.cat(found))
        # The same bits, of ids of any type and of weights that are rounded already.
        self.assertTrue(torch.equal(made[0], made[2]) and torch.equal(made[0], made[4]))
        self.assertTrue(torch.equal(made[6], made[8]) and torch.equal(made[7], made[9]))
        nothing = run(2, lambda g: st.moe(torch.empty(0, H).bfloat16(), torch.empty(0, K).int(), torch.empty(0, K),
                                          *self.part(tensors, g.rank, 2, True)[3:], g, expert_parallel=True))
        self.assertEqual(tuple(nothing[0].shape), (0, H))

    def test_tokens_that_ranks_do_not_divide(self):
        """Of 7 tokens 4 ranks have 2, 2, 2 and 1; of 2 the last two have none."""
        for ranks, count in ((2, 7), (3, 7), (4, 7), (4, 2)):
            experts, f, generator = 2 * ranks, 16 * ranks, torch.Generator().manual_seed(ranks)
            tensors = [normal(1, count, H), torch.rand(count, experts, generator=generator).topk(K).indices,
                       normal(3, count, K, dtype=torch.float32).abs(), normal(4, experts, f, H) / 4,
                       normal(5, experts, f, H) / 4, normal(6, experts, H, f) / 5]
            target = normal(9, count, H).double()
            wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in tensors]
            right = self.right(*wide)
            (right * target).sum().backward()
            for dealt, dtype in itertools.product((True, False), (torch.bfloat16, torch.float64)):
                def step(group):
                    mine = self.part([one.to(dtype) if one.dtype is torch.bfloat16 else one for one in tensors],
                                     group.rank, ranks, dealt)
                    for one in mine:
                        one.requires_grad_(one.is_floating_point())
                    y = st.moe(*mine, group, expert_parallel=dealt, rows=count)
                    (y.double() * self.part([target, *tensors[1:]], group.rank, ranks, dealt)[0]).sum().backward()
                    return [y.detach(), *(one.grad for one in mine)]
                with self.subTest(ranks=ranks, count=count, dealt=dealt, dtype=dtype):
                    is_served = dtype is torch.bfloat16
                    found = run(ranks, step, fallback=not is_served)
                    self.assertEqual(st.report().served, {"moe": ranks} if is_served else {})
                    self.assert_close(torch.cat([y for y, *_ in found]), right.detach(), dtype)
                    rights = [one.grad if one.is_floating_point() else one for one in wide]
                    for rank, (_, *grads) in enumerate(found):
                        for got, expected in zip(grads, self.part(rights, rank, ranks, dealt)):
                            if got is not None:
                                self.assert_close(got, expected, dtype if is_served else got.dtype)
        with self.assertRaisesRegex(ValueError, "^moe: x has 12 tokens; of rows=11 rank 0 of 1 has 11"):
            run(1, lambda g: st.moe(*self.tensors(), g, rows=11))

    def test_experts_that_ranks_do_not_divide(self):
        """Of 6 experts 4 ranks would have 2, 2, 2 and none, which PyTorch does; 7 go as 2, 2, 2 and 1."""
        for ranks, count, is_served in ((4, 7, True), (5, 13, True), (4, 6, False), (3, 2, False)):
            generator = torch.Generator().manual_seed(count)
            tensors = [normal(1, 2 * ranks, H), torch.rand(2 * ranks, count, generator=generator).topk(2).indices,
                       normal(3, 2 * ranks, 2, dtype=torch.float32).abs(), normal(4, count, WIDTH, H) / 4,
                       normal(5, count, WIDTH, H) / 4, normal(6, count, H, WIDTH) / 5]
            target = normal(9, 2 * ranks, H).double()
            wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in tensors]
            right = self.right(*wide)
            (right * target).sum().backward()
            rights = [one.grad if one.is_floating_point() else one for one in wide]
            block = -(-count // ranks)

            def part(of_all, rank):
                return [one[2 * rank:2 * rank + 2].clone() for one in of_all[:3]] + [
                    one[block * rank:block * (rank + 1)].clone() for one in of_all[3:]]

            def step(group):
                mine = part(tensors, group.rank)
                for one in mine:
                    one.requires_grad_(one.is_floating_point())
                y = st.moe(*mine, group, expert_parallel=True, num_experts=count)
                (y.double() * target[2 * group.rank:2 * group.rank + 2]).sum().backward()
                return [y.detach(), *(one.grad for one in mine)]
            with self.subTest(ranks=ranks, count=count):
                found = run(ranks, step, fallback=not is_served)
                self.assertEqual(st.report().served, {"moe": ranks} if is_served else {})
                self.assert_close(torch.cat([y for y, *_ in found]), right.detach(), torch.bfloat16)
                for rank, (_, *grads) in enumerate(found):
                    for got, expected in zip(grads, part(rights, rank)):
                        if got is not None and got.numel():
                            self.assert_close(got, expected, torch.bfloat16)
        mine = self.part(self.tensors(), 0, 2, True)
        for more, message in (({"num_experts": 5}, "gate has 3 experts; of num_experts=5 rank 1 of 2 has 2"),
                              ({"num_experts": 6, "expert_parallel": False}, "num_experts is 6, and without expert_"),
                              ({"num_experts": "6"}, "num_experts is '6'; a whole number was expected")):
            with self.assertRaisesRegex((ValueError, TypeError), f"^moe: {message}"):
                run(2, lambda g: st.moe(*mine, g, **{"expert_parallel": True, **more}))

    def test_ranks_with_any_numbers_of_tokens(self):
        """rows= says them all: 1, 0, 7 and 4 of 12."""
        counts, tensors, target = [1, 0, 7, 4], self.tensors(), normal(9, T, H).double()
        wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in tensors]
        right = self.right(*wide)
        (right * target).sum().backward()
        own = [slice(sum(counts[:rank]), sum(counts[:rank + 1])) for rank in range(4)]
        for ranks, dealt in ((4, False), (4, True), (1, True)):
            places, rows = ([slice(0, T)], [T]) if ranks == 1 else (own, counts)
            more = {"expert_parallel": dealt, "rows": rows, "num_experts": EXPERTS}

            def step(group):
                at, experts = places[group.rank], self.part(tensors, group.rank, ranks, False)[3:]
                if dealt:
                    block = -(-EXPERTS // ranks)
                    experts = [one[block * group.rank:block * (group.rank + 1)].clone() for one in tensors[3:]]
                mine = [one[at].clone() for one in tensors[:3]] + experts
                out = torch.empty_like(mine[0])
                self.assertIs(st.moe(*mine, group, out=out, **more), out)
                for one in mine:
                    one.requires_grad_(one.is_floating_point())
                y = st.moe(*(one.unsqueeze(0) for one in mine[:3]), *mine[3:], group, **more).squeeze(0)
                self.assertTrue(torch.equal(y, out))
                (y.double() * target[at]).sum().backward()
                return y.detach(), mine[0].grad, mine[2].grad
            with self.subTest(ranks=ranks, dealt=dealt):
                found = run(ranks, step, fallback=dealt)
                for got, expected in zip(zip(*found), (right.detach(), wide[0].grad, wide[2].grad)):
                    self.assert_close(torch.cat(got), expected, torch.bfloat16)
                copies = {name: count for (_, name, why), (count, _) in st.report().copies.items()
                          if why.startswith("filled up, since ranks have different")}
                self.assertEqual(copies, {} if ranks == 1 else {"x": 6, "ids": 6, "weights": 6})
        for dtype in (torch.uint8, torch.uint16):  # which have no number for no expert
            with self.subTest(dtype=dtype):
                found = run(4, lambda g: st.moe(*(one[own[g.rank]].to(dtype if one is tensors[1] else one.dtype)
                                                  for one in tensors[:3]), *self.part(tensors, g.rank, 4, False)[3:],
                                                g, rows=counts))
                self.assert_close(torch.cat(found), right.detach(), torch.bfloat16)
        mine = self.part(tensors, 0, 2, False)
        for rows, message in (([6], r"rows is \[6\]; a number for each of 2 ranks"), ([6, -1], ".* a number for each of 2"),
                              ([6, 5], r"x has 6 tokens; of rows=\[6, 5\] rank 1 has 5"),
                              ([6, None], r"rows\[1\] is None; a whole number"), ("6", "rows is '6'; a whole number")):
            with self.assertRaisesRegex((ValueError, TypeError), f"^moe: {message}"):
                run(2, lambda g: st.moe(*mine, g, rows=rows))
        for wrong, message in (((mine[0][0], *mine[1:]), rf"x is \[{H}\]; \[..., rows, columns\] was expected"),
                               ((mine[0], mine[1][1:], *mine[2:]), r"ids is torch.int\d+ \[5, 2\]; .* go with x \[6, ")):
            with self.assertRaisesRegex(ValueError, f"^moe: {message}"):
                run(2, lambda g: st.moe(*wrong, g, rows=[6, 7]))
        with self.assertRaisesRegex(ValueError, r"^moe: rows is \[6, 6\], and with sequence_parallel=False every rank"):
            run(2, lambda g: st.moe(*mine, g, rows=[6, 6], sequence_parallel=False))

    def test_tokens_that_every_rank_has(self):
        """In one plan with an all-reduce; gradients are whole on every rank, and those of the part of experts."""
        tensors, target = self.tensors(), normal(9, T, H).double()
        tensors[1][0, 0], tensors[1][3] = -1, EXPERTS
        wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in tensors]
        right = self.right(*wide)
        (right * target).sum().backward()
        rights = [one.grad if one.is_floating_point() else one for one in wide]

        def part(all_of_them, rank, ranks):
            return [*all_of_them[:3], *self.part(all_of_them, rank, ranks, False)[3:]]

        for ranks, dtype, of_weights in itertools.product((1, 2, 4), (torch.bfloat16, torch.float64),
                                                          (torch.float32, torch.bfloat16)):
            def step(group):
                mine = [one.to(dtype if one.dtype is torch.bfloat16 else of_weights) if one.is_floating_point() else one
                        for one in part(tensors, group.rank, ranks)]
                mine = [one.clone().requires_grad_(one.is_floating_point()) for one in mine]
                y = st.moe(mine[0].view(3, T // 3, H), *(one.view(3, T // 3, K) for one in mine[1:3]), *mine[3:], group,
                           sequence_parallel=False).flatten(0, 1)
                (y.double() * target).sum().backward()
                return [y.detach(), *(one.grad for one in mine)]
            with self.subTest(ranks=ranks, dtype=dtype, of_weights=of_weights):
                is_served = dtype is torch.bfloat16
                found = run(ranks, step, fallback=not is_served)
                self.assertEqual(st.report().served, {"moe": ranks} if is_served else {})
                for rank, (y, *gradients) in enumerate(found):
                    self.assert_close(y, right.detach(), torch.bfloat16)
                    self.assertTrue(torch.equal(y, found[0][0]))
                    for got, expected in zip(gradients, part(rights, rank, ranks)):
                        if got is not None:
                            self.assert_close(got, expected, torch.bfloat16)
        with self.assertRaisesRegex(ValueError, "^moe: .* of which expert_parallel takes own ones: cut every expert"):
            run(2, lambda g: st.moe(*self.part(tensors, g.rank, 2, True), g, expert_parallel=True,
                                    sequence_parallel=False))
        with self.assertRaisesRegex(ValueError, "^moe: rows is 12, and with sequence_parallel=False every rank"):
            run(1, lambda g: st.moe(*tensors, g, rows=12, sequence_parallel=False))

    def test_ids_beyond_32_bits_are_no_experts(self):
        tensors = self.tensors()
        tensors[1][0, 0], tensors[1][5, 1], tensors[1][9, 0] = 2**32 + 1, -2**32, 3 * 2**32
        right = self.right(*(one.double() if one.is_floating_point() else one for one in tensors))
        for dealt in (True, False):
            found = run(2, lambda g: st.moe(*self.part(tensors, g.rank, 2, dealt), g, expert_parallel=dealt))
            self.assertEqual(st.report().served, {"moe": 2})
            self.assertEqual(st.report().bad_ids, {"moe": 2 * 3})  # each rank tells of all tokens
            self.assertIn("6 ids of moe named nothing that there is", str(st.report()))
            self.assert_close(torch.cat(found), right)

    def test_ids_without_a_sign_are_not_cut_off(self):
        for kind, beyond in ((torch.uint64, (2**32 + 1, 2**63 + 2)), (torch.uint32, (2**32 - 1, 2**31))):
            x, ids, *rest = self.tensors()
            ids[0], ids[5, 1] = torch.tensor(beyond[:1]), beyond[1] if beyond[1] < 2**63 else -(2**63)
            right = self.right(*(one.double() if one.is_floating_point() else one for one in (x, ids, *rest)))
            with self.subTest(kind=kind):
                found, = run(1, lambda g: st.moe(x, ids.to(kind), *rest, g))
                self.assert_close(found, right)

    def test_results_are_written_where_the_caller_says(self):
        def call(group):
            mine = self.part(self.tensors(), group.rank, 2, True)
            out = torch.full((T // 2, H), float("nan")).bfloat16()
            self.assertIs(st.moe(*mine, group, expert_parallel=True, out=out), out)
            self.assertTrue(torch.equal(out, st.moe(*mine, group, expert_parallel=True)))
            for bad, message in ((mine[0], "out overlaps x"), (mine[5].view(-1)[:6 * H].view(6, H), "overlaps down"),
                                 (out[:3], r"\[6, 16\] is what comes")):
                with self.assertRaisesRegex(ValueError, f"^moe: .*{message}"):
                    st.moe(*mine, group, expert_parallel=True, out=bad)
        run(2, call)

    def test_pytorch_serves_the_rest(self):
        tensors = [one.double() if one.is_floating_point() else one for one in self.tensors()]
        for dealt in (False, True):
            found = run(2, lambda g: st.moe(*self.part(tensors, g.rank, 2, dealt), g, expert_parallel=dealt), True)
            self.assert_close(torch.cat(found), self.right(*tensors))
            self.assertIn("float64", str(st.report()))

    def test_gradients_are_those_of_one_rank(self):
        for dealt in (False, True):
            with self.subTest(dealt=dealt):
                tensors = self.tensors()
                wide = [one.double().requires_grad_() if one.is_floating_point() else one for one in tensors]
                target = normal(9, T, H).double()
                (self.right(*wide) * target).sum().backward()

                def step(group):
                    mine = self.part(tensors, group.rank, 2, dealt)
                    for one in mine:
                        one.requires_grad_(one.is_floating_point())
                    y = st.moe(*mine, group, expert_parallel=dealt)
                    (y.double() * target.chunk(2)[group.rank]).sum().backward()
                    return [one.grad for one in mine]
                rights = [one.grad if one.is_floating_point() else one for one in wide]
                for rank, found in enumerate(run(2, step)):
                    for got, right in zip(found, self.part(rights, rank, 2, dealt)):
                        if got is not None:
                            self.assert_close(got, right, torch.bfloat16)

    def test_compile_and_autocast(self):
        tensors = self.tensors()

        def call(group):
            mine = self.part(tensors, 0, 1, True)
            right = st.moe(*mine, group)
            torch._dynamo.reset()
            compiled = torch.compile(lambda *given: st.moe(*given, group.name) * 2, fullgraph=True, backend="aot_eager")
            self.assert_close(compiled(*mine), right.double() * 2)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = st.moe(*(one.float() if one.is_floating_point() else one for one in mine), group)
            self.assertTrue(torch.equal(cast, right))
        run(1, call)
        with st.Threads(1) as threads:
            torch.library.opcheck(torch.ops.stretto.moe.default, (*(
                one.requires_grad_(one.is_floating_point()) for one in self.part(tensors, 0, 1, True)),
                threads.groups[0].name))

    def test_gradients_where_operations_are_counted(self):
        """Then the dispatcher has a mode, and kernels run below autograd."""
        def call(group):
            mine = self.part(self.tensors(), 0, 1, True)
            for one in mine:
                one.requires_grad_(one.is_floating_point())
            leaves = [one for one in mine if one.requires_grad]
            right = torch.autograd.grad(st.moe(*mine, group).float().sum(), leaves)
            with FlopCounterMode(display=False):
                found = torch.autograd.grad(st.moe(*mine, group).float().sum(), leaves)
            for one, other in zip(found, right):
                self.assertTrue(torch.equal(one, other))
        run(1, call)

    def test_what_is_refused(self):
        x, ids, weights, gate, up, down = self.tensors()
        for given, message in (
                ((x, ids.float(), weights, gate, up, down), "ids is torch.float32"),
                ((x, ids.to(torch.complex64), weights, gate, up, down), "ids is torch.complex64"),
                ((x, ids[:3], weights, gate, up, down), r"whole numbers \[..., k\] go with x \[12, 16\]"),
                ((x, ids, weights[:, :1], gate, up, down), r"weights is torch.float32 \[12, 1\]"),
                ((x, ids, weights, gate[0], up, down), r"\[experts, F, 16\] goes with x"),
                ((x, ids, weights, gate, up[:2], down), "up is .* they must be alike"),
                ((x, ids, weights, gate, up, gate), r"down is \[6, 32, 16\]; \[6, 16, 32\] goes with gate")):
            with self.assertRaisesRegex(ValueError, f"^moe: .*{message}"):
                run(1, lambda group: st.moe(*given, group))


if __name__ == "__main__":
    unittest.main()
