"""Experts of any number of tokens by a bounded number of operations: those that have rows added, bit by bit."""

import itertools
import unittest
from unittest import mock

from ranks import Numbers, normal

import emulated
import test_torch_experts
import test_torch_routers

import torch

import stretto.torch as st
from stretto.torch import _operations, _rooms

H, K, EXPERTS = 16, 2, 6
MOST = 3  # operations of numbers of rows of their own, here


def experts(tokens, ids=torch.int32, dtype=torch.bfloat16):
    """What moe() takes, of all ranks."""
    generator = torch.Generator().manual_seed(tokens)
    chosen = torch.rand(tokens, EXPERTS, generator=generator).topk(K).indices.to(ids)
    return [normal(1, tokens, H, dtype=dtype), chosen, torch.rand(tokens, K, generator=generator),
            *(normal(seed, EXPERTS, *shape, dtype=dtype) / 4 for seed, shape in ((4, (32, H)), (5, (32, H)), (6, (H, 32))))]


class Rooms(Numbers):
    def setUp(self):
        fewer = mock.patch.object(_operations, "MOST_PLANS", MOST)
        fewer.start()
        self.addCleanup(fewer.stop)

    def both(self, ranks, program):
        """The results of program(group), by rank: by the emulator alone, and by operations, which are given, too."""
        found = []
        with st.Threads(ranks, fallback=False, schedule="tiles", timeout_s=60) as threads:
            found.append(threads.run(program))
        with emulated.operations() as (made, _), st.Threads(ranks, fallback=False, timeout_s=60) as threads:
            found.append(threads.run(program))
        return *found, made

    def assert_same_bits(self, found, right):
        for rank, (one, other) in enumerate(zip(found, right)):
            self.assertEqual(len(one), len(other))
            for index, (mine, its) in enumerate(zip(one, other)):
                self.assertEqual((mine.dtype, mine.shape), (its.dtype, its.shape))
                self.assertTrue(torch.equal(mine, its), f"rank {rank}, result {index}")

    def test_rooms_are_few_and_not_much_larger_than_what_they_hold(self):
        rooms = set()
        for ranks in (1, 2, 8):
            for rows in range(1, 5000):
                room = _rooms.room_of(rows, ranks)
                self.assertEqual(room % ranks, 0)
                self.assertGreaterEqual(room, rows)
                own = -(-rows // ranks)
                self.assertTrue(room // ranks == 4 or 2 * room // ranks < 3 * own, (rows, ranks, room))
                rooms.add(room // ranks)
        self.assertEqual(sorted(rooms)[:7], [4, 6, 8, 12, 16, 24, 32])
        self.assertLess(len(rooms), 24)

    def test_many_numbers_of_tokens_have_the_bits_of_operations_of_their_own(self):
        for ranks, dealt, ids in ((1, True, torch.int64), (2, False, torch.int32), (2, True, torch.int64),
                                  (3, True, torch.int32)):
            counts = [1, 2, 7, 3, 4, 5, 13, 29, 7, 13, 0, 60, 10]

            def program(group):
                found = []
                for count in counts:
                    mine = test_torch_experts.Experts.part(experts(count, ids), group.rank, ranks, dealt)
                    for one in mine:
                        one.requires_grad_(one.is_floating_point())
                    y = st.moe(*mine, group, expert_parallel=dealt, rows=count)
                    y.float().square().sum().backward()
                    with torch.no_grad():
                        out = torch.full_like(y, float("nan"))
                        st.moe(*mine, group, expert_parallel=dealt, rows=count, out=out)
                    found += [y.detach(), out, *(one.grad for one in mine if one.is_floating_point())]
                return found
            with self.subTest(ranks=ranks, dealt=dealt, ids=ids):
                right, found, made = self.both(ranks, program)
                self.assert_same_bits(found, right)
                self.assertEqual(st.report().fallbacks, {})
                own, rooms = made[0][:MOST], made[0][MOST:]
                self.assertEqual([one.max_rows for one in own], counts[:MOST])
                self.assertLess(len(rooms), len(set(counts)) - MOST)
                self.assertTrue(all(one.max_rows == _rooms.room_of(one.max_rows, ranks) for one in rooms))
                self.assertEqual([one.max_rows for one in made[ranks - 1]], [one.max_rows for one in made[0]])

    def test_tokens_that_every_rank_has(self):
        """Rooms are of all tokens then, as many on each rank, and prepare() makes those."""
        counts = [1, 2, 7, 3, 5, 13, 9]

        def program(group, prepared=None):
            found = []
            for count in counts:
                whole = experts(count)
                mine = [*whole[:3], *test_torch_experts.Experts.part(whole, group.rank, 2, False)[3:]]
                found.append(st.moe(*mine, group, sequence_parallel=False))
                if prepared and count == counts[0]:
                    st.prepare(prepared, group.name)
            return found
        right, found, made = self.both(2, program)
        self.assert_same_bits(found, right)
        self.assertEqual([one.max_rows for one in made[0]], [1, 2, 7, 4, 6, 16, 12])
        right, found, made = self.both(2, lambda group: program(group, 13))
        self.assert_same_bits(found, right)
        self.assertEqual([one.max_rows for one in made[0]], [1, 4, 6, 8, 12, 16])

    def test_routers_choose_nothing_for_rows_that_are_added(self):
        """Loads of experts, which a token of zeros would add to, are as they are without."""
        for kind, dealt in itertools.product(("softmax of all", "deepseek"), (True, False)):
            more = test_torch_routers.arguments(kind)

            def program(group):
                found = []
                for count in (1, 2, 3, 5, 9, 10, 17):
                    mine = test_torch_routers.part(test_torch_routers.given(tokens=count), group.rank, 2, dealt)
                    for one in mine:
                        one.requires_grad_()
                    y, ids, weights = st.moe_with_router(*mine, test_torch_routers.K, group, expert_parallel=dealt,
                                                         rows=count, **more)
                    (y.float().square().sum() + weights.sum()).backward()
                    found += [y.detach(), ids, weights.detach(), *(one.grad for one in mine)]
                return found
            with self.subTest(kind=kind, dealt=dealt):
                right, found, made = self.both(2, program)
                self.assert_same_bits(found, right)
                self.assertEqual(st.report().fallbacks, {})
                self.assertEqual([one.max_rows for one in made[0]], [1, 2, 3, 8, 12, 24])
                last = made[0][-1].last  # of 17 tokens, of which rank 0 has 9
                self.assertTrue((last["ids"][:9] >= 0).all() and (last["ids"][9:] == -2).all())
                self.assertTrue(last["y"].isfinite().all())

    def test_tokens_are_copied_only_where_their_number_has_no_operation(self):
        def program(group):
            tensors, calls = {}, {}
            for count in [*range(1, MOST + 1), 30]:
                tensors[count] = experts(count)
            with torch.no_grad():
                for given in tensors.values():
                    st.moe(*given, group, expert_parallel=True)
                st.moe(*tensors[3], group, expert_parallel=True)
            for operation in made[0]:
                calls[operation.max_rows] = [[run[name] for name in ("x", "ids", "weights", "wd")]
                                             for run in operation.runs]
            for count in range(1, MOST + 1):
                given = [tensors[count][place].data_ptr() for place in (0, 1, 2, 5)]
                self.assertEqual(calls[count], [given] * (2 if count == 3 else 1))
            added = made[0][-1].last
            self.assertTrue((added["ids"][30:] == -1).all() and (added["ids"][:30] >= 0).all())
            (x, _, _, down), = calls[32]
            self.assertNotEqual(x, tensors[30][0].data_ptr())
            self.assertEqual(down, tensors[30][5].data_ptr())
        with emulated.operations() as (made, _), st.Threads(1, fallback=False, timeout_s=60) as threads:
            threads.run(program)

    def test_captures_take_rooms_that_are_there(self):
        def program(group):
            for count in range(1, MOST + 1):
                st.moe(*experts(count), group, expert_parallel=True)
            stream.is_capturing = True
            with self.assertRaisesRegex(ValueError, "call it once before"):
                st.moe(*experts(9), group, expert_parallel=True)
            stream.is_capturing = False
            st.moe(*experts(12), group, expert_parallel=True)
            stream.is_capturing = True
            st.moe(*experts(9), group, expert_parallel=True)
        with emulated.operations() as (made, stream), st.Threads(1, fallback=False, timeout_s=60) as threads:
            threads.run(program)
            self.assertEqual([one.max_rows for one in made[0]], [*range(1, MOST + 1), 12])
            self.assertEqual(len(made[0][-1].runs), 2)

    def test_what_has_no_room_has_a_bounded_number_of_operations(self):
        """An MLP goes in parts, whose operations serve any number of rows."""
        x, up = normal(1, 40, H), normal(2, 32, H) / 4

        def program(group):
            for count in range(1, 9):
                st.mlp(x[:count], [up, up], up.t().contiguous(), group)
        with emulated.operations() as (made, _), st.Threads(1, fallback=False, timeout_s=60) as threads:
            threads.run(program)
            self.assertEqual([one.graph for one in made[0]], ["mlp-ar"] * MOST + ["gemm-ar"])


if __name__ == "__main__":
    unittest.main()
