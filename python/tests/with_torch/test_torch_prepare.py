"""What servers make before they serve: after it no call makes anything."""

import unittest
from unittest import mock

from ranks import Numbers, normal

import emulated
import test_torch_experts
import test_torch_routers

import torch

import stretto.torch as st
from stretto.torch import _ahead, _operations

RANKS, H, F, MOST = 2, 16, 32, 21


def model(group, rows):
    """Every operator that rows of tokens go through, as a rank has them of so many tokens."""
    own = max(0, min(-(-rows // RANKS), rows - group.rank * -(-rows // RANKS)))
    up, down = normal(2, F, H) / 4, normal(3, H, F) / 4
    whole, part, scale = normal(1, rows, H), normal(1, own, H), normal(4, H)
    found = [st.matmul_all_reduce(whole, up, group=group), st.all_gather_matmul(part, up, up[:, 0], group, rows=rows),
             st.matmul_reduce_scatter(normal(1, rows, F), down, group=group),
             st.mlp(whole, [up, up], down, group),
             *st.matmul_all_reduce_add_rms_norm(normal(1, rows, F), down, whole, scale, 1e-5, group)]
    if rows % RANKS == 0:  # others are no MLP's
        found.append(st.mlp(part, [up, up], down, group, up_bias=[up[:, 0], up[:, 1]], sequence_parallel=True))
    tensors = test_torch_routers.given(tokens=rows)
    found += st.moe_with_router(*test_torch_routers.part(tensors, group.rank, RANKS, True), test_torch_routers.K, group,
                                expert_parallel=True, rows=rows)
    ids, weights = torch.arange(2 * own).view(own, 2) % 4, torch.full((own, 2), 0.5)
    experts = test_torch_experts.Experts.part([whole, ids, weights, *(normal(seed, 4, *shape) / 4 for seed, shape in (
        (5, (F, H)), (6, (F, H)), (7, (H, F))))], group.rank, RANKS, False)
    return [*found, st.moe(part, ids, weights, *experts[3:], group, rows=rows)]


class Prepare(Numbers):
    def setUp(self):
        # Small ones, so that a few rows go through several.
        for where, name, value in ((_operations, "FEWEST_ROWS", 4), (_ahead, "STEP", 2)):
            patched = mock.patch.object(where, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def run_model(self, ranks=RANKS):
        """Threads of which every rank has called the model with the most rows; the operations that they make."""
        operations = emulated.operations()
        made, self.stream = operations.__enter__()
        self.addCleanup(operations.__exit__, None, None, None)
        threads = st.Threads(ranks, fallback=False, timeout_s=60)
        self.addCleanup(threads.close)
        threads.run(lambda group: model(group, MOST - 1))
        threads.run(lambda group: st.run_graph("gemm-rs", {"a": normal(1, 4, H), "b": normal(2, F, H)}, group, n=F,
                                               m=4, k=H * ranks))
        return threads, made

    @staticmethod
    def sizes(made):
        found = {}
        for one in made[0]:
            found.setdefault((one.graph, one.rows), []).append(one.max_rows)
        return found

    def test_after_a_number_no_call_of_fewer_rows_makes_anything(self):
        threads, made = self.run_model()
        before = len(made[0])
        counts = threads.run(lambda group: st.prepare(MOST, group))
        self.assertEqual(counts, [len(made[0]) - before] * RANKS)
        self.assertGreater(counts[0], 20)
        ready = len(made[0])
        st.reset_report()
        with torch.no_grad():
            for rows in range(1, MOST + 1):
                threads.run(lambda group: model(group, rows))
        self.assertEqual(len(made[0]), ready, [one.graph for one in made[0][ready:]])
        self.assertEqual([one.graph for one in made[1]], [one.graph for one in made[0]])
        for (op, reason), _ in st.report().fallbacks.items():
            self.assertRegex(f"{op} {reason}", "^(mlp|matmul_all_reduce_add_rms_norm) in parts: no plan was prepared")
        for one in made[0]:
            if one.rows == "bucket":  # every bucket of what it serves, each of STEP rows here
                least = 1 if one.max_rows == 4 else one.max_rows // 2 + 1
                for rows in range(least, min(one.max_rows, MOST) + 1):
                    bucket = -(-rows // 2) * 2
                    self.assertTrue(any(-(-ready // 2) * 2 == bucket for ready in one.prepared), (one.graph, rows))
        more = self.sizes(made)
        self.assertEqual(sorted(more["gemm-ar", "bucket"]), sorted(2 * [4, 8, 16, 32]))
        self.assertEqual(more["mlp-ar", "fixed"], [MOST - 1])
        self.assertEqual(more["moe-tp-i64", "fixed"], [20, 8, 12, 16, 24])
        self.assertEqual(len({one.max_rows for one in made[0] if one.graph == "gemm-rs"} - {4, 8, 16, 32}), 0)

    def test_numbers_have_plans_of_their_own_and_others_stay_as_they_are(self):
        threads, made = self.run_model()
        numbers = [9, 3, 8]
        self.assertGreater(threads.run(lambda group: st.prepare(iter(numbers), group))[0], 0)
        self.assertEqual(self.sizes(made)["mlp-ar", "fixed"], [MOST - 1, 3, 8, 9])
        ready = len(made[0])
        st.reset_report()
        for rows in (3, 8, 9):
            threads.run(lambda group: model(group, rows))
        self.assertEqual(len(made[0]), ready)
        self.assertEqual(st.report().fallbacks, {})
        threads.run(lambda group: model(group, 5))
        self.assertGreater(len(made[0]), ready)

    def test_more_numbers_than_plans_go_in_parts_that_are_made(self):
        with mock.patch.object(_operations, "MOST_PLANS", 2):
            threads, made = self.run_model()
            threads.run(lambda group: st.prepare([2, 3, 18], group))
            ready = len(made[0])
            self.assertEqual(self.sizes(made)["mlp-ar", "fixed"], [MOST - 1, 2])
            for rows in (2, 3, 18):
                threads.run(lambda group: model(group, rows))
            self.assertEqual(len(made[0]), ready)

    def test_what_is_done_is_told(self):
        threads, made = self.run_model()
        told = [[] for _ in range(RANKS)]
        threads.run(lambda group: st.prepare(MOST, group, progress=lambda *said: told[group.rank].append(said)))
        self.assertEqual(told[0], told[1])
        self.assertEqual([done for done, _, _ in told[0]], list(range(1, len(told[0]) + 1)))
        self.assertEqual(told[0][-1][0], told[0][-1][1])
        self.assertIn("matmul_all_reduce of 16 rows", [what for _, _, what in told[0]])
        again = []
        self.assertEqual(threads.run(lambda group: st.prepare(MOST, group, progress=lambda *said: again.append(said))),
                         [0, 0])

    def test_what_cannot_be(self):
        threads, _ = self.run_model()

        def program(group):
            for bad in (0, -3, 2.5, None, [], [4, 0], ["8"]):
                with self.assertRaisesRegex(ValueError, "^prepare: rows is .*; a number of rows from 1 on"):
                    st.prepare(bad, group)
            with self.assertRaisesRegex(ValueError, "ranks disagree at prepare: rows is 4 on rank 0, 5 on rank 1"):
                st.prepare(4 + group.rank, group)
        threads.run(program)
        self.stream.is_capturing = True
        with self.assertRaisesRegex(ValueError, "call it before the capture"):
            threads.run(lambda group: st.prepare(4, group))

    def test_learning_asks_every_plan_while_there_is_time(self):
        threads, made = self.run_model()
        for operations in made.values():
            for one in operations:
                one.left = 2
        count = len(made[0])
        self.assertEqual(threads.run(lambda group: st.learn(0, group)), [2 * count] * RANKS)
        self.assertEqual({one.budgets[0] for one in made[0]}, {0.0})
        threads.run(lambda group: st.learn(50000, group))
        budgets = [one.budgets[1] for one in made[0]]
        self.assertEqual(budgets, sorted(budgets, reverse=True))
        self.assertTrue(0 < budgets[-1] <= budgets[0] <= 50000)

        def program(group):
            for bad in (-1, "8", None, 3600001):
                with self.assertRaisesRegex(ValueError, "^budget_ms is .* from 0 to 3600000"):
                    st.learn(bad, group)
            with self.assertRaisesRegex(ValueError, "ranks disagree at learn: budget_ms is 4.0 on rank 0, 5.0 on rank"):
                st.learn(4 + group.rank, group)
        threads.run(program)
        self.stream.is_capturing = True
        with self.assertRaisesRegex(ValueError, "^learn: no CUDA graph can hold it: call it outside the capture"):
            threads.run(lambda group: st.learn(4, group))

    def test_nothing_is_made_of_what_was_not_called_or_on_cpus(self):
        def program(group):
            found = [st.prepare(64, group)]
            st.matmul_all_reduce(normal(1, 4, H), normal(2, F, H), group=group)
            return [*found, st.prepare(64, group), st.learn(100, group)]
        self.assertEqual(st.run_threads(program, 2, timeout_s=60), [[0, 0, 0]] * 2)


if __name__ == "__main__":
    unittest.main()
