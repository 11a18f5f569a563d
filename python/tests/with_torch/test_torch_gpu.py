"""What calls on GPU tensors ask of the library; its operations are stand-ins here, and tensors lie on the CPU."""

import unittest
from unittest import mock

from fake_operations import OnOperations, Operation

import torch

import stretto.torch as st
from stretto.torch import _calls, _engine, _gpu, _gpu_context
from stretto.torch._refusals import NotServed
from stretto.torch.report import FAR, UNALIGNED


class Calls(OnOperations):
    def test_a_context_is_of_the_groups_ranks(self):
        def program(group):
            _gpu.Engine(group).run(self.call(), "bf16", {})
        st.run_threads(program, 2, timeout_s=60)
        self.assertEqual(sorted((one.rank, one.ranks, one.timeout_s) for one in self.contexts),
                         [(0, 2, 60.0), (1, 2, 60.0)])
        for one in self.contexts:
            self.assertEqual(one.everyone, [b"secret 0", b"secret 1"])

    def test_all_calls_share_a_workspace_that_grows(self):
        for options, given, held in (({}, (0, True), 0), ({"workspace_bytes": 1 << 20}, (1 << 20, True), 1 << 20),
                                     ({"workspace_bytes": 1 << 20, "workspace_grows": False}, (1 << 20, False), 1 << 20),
                                     ({"workspace_grows": False}, (0, False), 200)):
            engine = self.engine(**options)
            self.assertEqual(engine.workspace_bytes, 0)
            for rows in (4, 300):
                engine.run(self.call(rows), "bf16", {})
            made = self.contexts[-1]
            self.assertEqual((made.workspace_bytes, made.workspace_grows), given)
            self.assertEqual(engine.workspace_bytes, held)

    def test_calls_leave_sms_to_others(self):
        for given in (0, 16):
            self.engine(free_sms=given).run(self.call(), "bf16", {})
            self.assertEqual(self.contexts[-1].free_sms, given)

    def test_what_the_workspace_has_no_room_for_is_not_served(self):
        engine = self.engine(workspace_bytes=64, workspace_grows=False)
        with mock.patch.object(Operation, "refusal", "a plan needs 128 bytes between ranks"):
            with self.assertRaisesRegex(NotServed, "a plan needs 128 bytes between ranks"):
                engine.run(self.call(), "bf16", {})

    def test_ranks_on_several_machines_are_not_served(self):
        def program(message):
            def call(group):
                with self.assertRaisesRegex(NotServed, message):
                    _gpu.Engine(group).run(self.call(), "bf16", {})
            return call
        ids, names = iter(("one", "other")), iter(("here", "there"))
        with mock.patch.object(_gpu_context, "machine_id", lambda: next(ids)):
            with mock.patch.object(_gpu_context.socket, "gethostname", lambda: next(names)):
                st.run_threads(program("ranks are on 2 machines .here, there"), 2, timeout_s=60)
        ids = iter(("one", "other"))  # hosts of one name
        with mock.patch.object(_gpu_context, "machine_id", lambda: next(ids)):
            st.run_threads(program("ranks are on 2 machines"), 2, timeout_s=60)

    def test_containers_of_one_machine_may_have_names_of_their_own(self):
        names = iter(("here", "there"))
        with mock.patch.object(_gpu_context.socket, "gethostname", lambda: next(names)):
            st.run_threads(lambda group: _gpu.Engine(group).run(self.call(), "bf16", {}), 2, timeout_s=60)
        self.assertEqual(len(self.contexts), 2)

    def test_the_store_does_not_keep_the_jobs_secret(self):
        store, said = torch.distributed.HashStore(), []

        def program(group):
            group.meeting._store = mock.Mock(wraps=store)
            _gpu.Engine(group).run(self.call(), "bf16", {})
            said.extend(key.args[0] for key in group.meeting._store.set.call_args_list
                        if b"secret" in bytes(key.args[1]))
        st.run_threads(program, 2, timeout_s=60)
        self.assertEqual(len(said), 2)
        self.assertFalse([key for key in said if store.check([key])])

    def test_other_gpus_are_not_served(self):
        engine, self.capability = self.engine(), (8, 0)
        for _ in range(2):
            with self.assertRaisesRegex(NotServed, r"GPUs of sm_80, and Stretto takes sm_90 .Hopper."):
                engine.run(self.call(), "bf16", {})
        self.assertFalse(self.contexts)

    def test_operators_of_several_products_have_fixed_rows(self):
        engine = self.engine()
        x, up = torch.zeros(4, 8).bfloat16(), torch.zeros(16, 8).bfloat16()
        for rows in (4, 4, 8):
            engine.run(_calls.mlp(rows, x, [up, up], [], up.t().contiguous(), "swiglu", True, 1), "bf16", {})
        self.assertEqual([(one.operator, one.options["rows"], one.options["sizes"]["m"])
                          for one in Operation.made], [("mlp", "fixed", 4), ("mlp", "fixed", 8)])

    def test_experts_have_fixed_tokens_and_types_of_their_own(self):
        group = st.Threads(1, timeout_s=60).groups[0]
        self.addCleanup(group.close)
        x, ids, weights = torch.zeros(6, 8).bfloat16(), torch.ones(6, 2).long(), torch.ones(6, 2).bfloat16()
        gate, up, down = (torch.zeros(3, *shape).bfloat16() for shape in ((16, 8), (16, 8), (8, 16)))
        with mock.patch.dict(_engine.ENGINES, {"cpu": _gpu.Engine}):
            y = torch.ops.stretto.moe(x, ids, weights, gate, up, down, group.name, True)
            st.moe(x[:3], ids[:3], weights[:3].float(), gate, up, down, group)
            st.moe(x[:3], ids[:3].short(), weights[:3].double(), gate, up, down, group)
        self.assertEqual(y.shape, x.shape)
        self.assertTrue(Operation.made[0].operator.startswith("graph moe-ep-i64-own-weights t h f experts k"))
        self.assertEqual([one.operator for one in Operation.made[1:]], ["moe-tp-i64", "moe-tp"])
        self.assertEqual([(one.options["rows"], one.options["sizes"]) for one in Operation.made],
                         [("fixed", {"t": tokens, "h": 8, "f": 16, "experts": 3, "k": 2}) for tokens in (6, 3, 3)])
        given = [[run[0][name].dtype for name in ("ids", "weights", "x", "wd")]
                 for one in Operation.made for run in one.runs]
        self.assertEqual(given, [[torch.int64, torch.bfloat16, torch.bfloat16, torch.bfloat16],
                                 [torch.int64, torch.float32, torch.bfloat16, torch.bfloat16],
                                 [torch.int32, torch.float32, torch.bfloat16, torch.bfloat16]])

    def test_what_is_refused_is_asked_once(self):
        engine = self.engine()
        with mock.patch.object(Operation, "refusal", "n is 12: a multiple of 8 is needed"):
            for _ in range(2):
                with self.assertRaisesRegex(NotServed, "a multiple of 8"):
                    engine.run(self.call(n=12), "bf16", {})
        with self.assertRaisesRegex(NotServed, "a multiple of 8"):
            engine.run(self.call(n=12), "bf16", {})

    def test_captures(self):
        engine = self.engine()
        self.is_capturing = True
        with self.assertRaisesRegex(NotServed, "call it once before"):
            engine.run(self.call(), "bf16", {})
        self.is_capturing = False
        engine.run(self.call(), "bf16", {})
        self.is_capturing = True
        engine.run(self.call(), "bf16", {})
        with mock.patch.object(Operation, "per_graph", 2):
            with self.assertRaisesRegex(NotServed, "take turns in 2 buffers, .* a multiple of 2 runs; schedules"):
                engine.run(self.call(), "bf16", {})
        with mock.patch.object(Operation, "runs_per_graph", side_effect=ValueError("no plan for 4 rows")):
            with self.assertRaisesRegex(NotServed, "call it once before"):
                engine.run(self.call(), "bf16", {})

    def test_captures_of_graphs_whose_rows_are_not_named_first(self):
        """Are asked for by the rows that the operation has."""
        engine, x = self.engine(), torch.zeros(4, 8).bfloat16()
        call = _calls.Call("run_graph", "gemm-a2a", (("k", 8), ("n", 16), ("m", 4)), {"a": x, "b": x}, {"out": (4, 16)})

        def runs_per_graph(operation, rows):
            if rows != 4:
                raise ValueError(f"no plan serves {rows} rows yet")
            return 1
        with mock.patch.object(Operation, "runs_per_graph", runs_per_graph):
            for self.is_capturing in (False, True):
                made = engine.run(call, "bf16", {})
            self.assertEqual((tuple(made["out"].shape), Operation.made[0].runs[1][1]), ((4, 16), 4))

    def test_tensors_are_aligned_and_targets_written(self):
        engine = self.engine()
        st.reset_report()
        a = torch.arange(33, dtype=torch.bfloat16)[1:].view(4, 8)
        call = _calls.matmul_reduce(a, torch.zeros(16, 8, dtype=torch.bfloat16), 1)
        out = torch.empty(4, 16, dtype=torch.bfloat16)
        made = engine.run(call, "bf16", {"out": out})
        given = Operation.made[0].runs[0][0]
        self.assertEqual(given["a"].data_ptr() % 16, 0)
        self.assertTrue(torch.equal(given["a"], a))
        self.assertEqual(made["out"].data_ptr(), out.data_ptr())
        self.assertEqual(st.report().copies, {("matmul_all_reduce", "a", UNALIGNED): (1, 64)})
        crooked = torch.empty(65, dtype=torch.bfloat16)[1:].view(4, 16)
        self.assertNotEqual(engine.run(call, "bf16", {"out": crooked})["out"].data_ptr(), crooked.data_ptr())
        self.assertEqual(st.report().copies, {("matmul_all_reduce", "a", UNALIGNED): (2, 128),
                                              ("matmul_all_reduce", "out", UNALIGNED): (1, 128)})
        self.assertIn("2 x matmul_all_reduce: copied a, which began at no multiple of 16 bytes: 128 bytes in all",
                      str(st.report()))
        st.reset_report()
        self.assertFalse(st.report().copies)

    def test_gates_of_experts_lie_beside_what_they_gate(self):
        engine = self.engine()
        st.reset_report()
        x, ids = torch.zeros(4, 16, dtype=torch.bfloat16), torch.zeros(4, 2, dtype=torch.int32)
        gate, up = (torch.randn(3, 8, 16).bfloat16() for _ in range(2))
        down = torch.zeros(3, 16, 8, dtype=torch.bfloat16)
        call = _calls.moe(4, x, ids, torch.ones(4, 2), gate, up, down, len(gate), False, 1)
        engine.run(call, "bf16", {})
        self.assertFalse(st.report().copies)
        with mock.patch.object(_gpu, "REACH", 1):
            engine.run(call, "bf16", {})
        given = Operation.made[0].runs[-1][0]
        self.assertEqual(given["wu"].data_ptr() - given["wg"].data_ptr(), gate.numel() * 2)
        self.assertTrue(torch.equal(given["wg"], gate) and torch.equal(given["wu"], up))
        self.assertEqual(st.report().copies, {("moe", "wg", FAR): (1, 768), ("moe", "wu", FAR): (1, 768)})

    def test_bad_ids_are_those_since_the_last_reset(self):
        engine, call = self.engine(), self.call()
        st.reset_report()
        engine.run(call, "bf16", {})
        self.assertEqual(st.report().bad_ids, {call.op: 3})
        st.reset_report()
        self.assertEqual(st.report().bad_ids, {})
        engine.run(call, "bf16", {})
        self.is_capturing = True  # nothing is read
        self.assertEqual(st.report().bad_ids, {})
        self.is_capturing = False
        self.assertEqual(st.report().bad_ids, {call.op: 3})
        engine.close()
        self.assertEqual(st.report().bad_ids, {call.op: 3})
        st.reset_report()
        self.assertFalse(st.report().bad_ids)

    def test_ranks_compare_the_first_call_of_a_kind_or_every_one(self):
        for compare in (False, True):
            with st.Threads(1, timeout_s=60, compare=compare) as threads:
                group, call = threads.groups[0], self.call()
                on_gpu = mock.Mock(wraps=call, sizes=call.sizes, dtype=call.dtype, device=torch.device("cuda", 0),
                                   op=call.op, graph_name=call.graph_name)
                with mock.patch.object(group.meeting, "agree") as agree:
                    for _ in range(3):
                        _engine.agree(on_gpu, group, None)
                self.assertEqual(agree.call_count, 3 if compare else 1)

    def test_a_failure_is_told_by_the_next_call_and_by_finish(self):
        engine = self.engine()
        engine.run(self.call(), "bf16", {})
        engine.run(self.call(n=24), "bf16", {})
        with mock.patch.object(Operation, "failure", "rank 1 compute 3 waits for p.2"):
            for self.is_capturing in (False, True):
                with self.assertRaisesRegex(RuntimeError, "rank 1 compute 3 waits for p.2; finish.. on all ranks"):
                    engine.run(self.call(), "bf16", {})
            with self.assertRaisesRegex(RuntimeError, "^rank 1 compute 3"):
                engine.finish()
        self.assertEqual([one.finished for one in Operation.made if not one.is_closed], [1, 1])
        engine.run(self.call(), "bf16", {})
        engine.close()
        self.assertTrue(self.contexts[0].closed)

    def test_a_group_says_what_went_wrong_without_waiting(self):
        def program(group):
            engine = group.engines["cuda"] = _gpu.Engine(group)
            self.assertEqual(group.error(), "")
            for n in (16, 24, 40):
                engine.run(self.call(n=n), "bf16", {})
            self.assertEqual(group.error(), "")
            if group.rank == 1:  # alone: nobody else is asked
                failed = [one for one in Operation.made if one.context.rank == 1]
                failed[0].failure = failed[2].failure = "rank 0 is late"
                failed[1].failure = "rank 1 compute 3 waits for p.2"
                self.assertEqual(group.error(), "rank 0 is late; rank 1 compute 3 waits for p.2")
                self.assertEqual([one.finished for one in failed], [0, 0, 0])
            group.engines.clear()
        st.run_threads(program, 2, timeout_s=60)

    def test_on_cpus_calls_raise_what_goes_wrong(self):
        def program(group):
            st.matmul_all_reduce(torch.ones(2, 8), torch.ones(4, 8), group=group)
            return group.error()
        self.assertEqual(st.run_threads(program, 2, timeout_s=60), ["", ""])

    def test_types(self):
        self.assertEqual(_gpu.Engine.TYPES, ("bf16", "fp16"))


if __name__ == "__main__":
    unittest.main()
