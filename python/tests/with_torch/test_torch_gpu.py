"""What calls on GPU tensors ask of the library; its operations are stand-ins here, and tensors lie on the CPU."""

import types
import unittest
from unittest import mock

import ranks  # noqa: F401  (PyTorch, or no tests)

import torch

import stretto
import stretto.torch as st
from stretto.torch import _calls, _engine, _gpu, _gpu_context, _operations
from stretto.torch._refusals import NotServed
from stretto.torch.report import UNALIGNED


class Operation:
    made = []
    refusal = failure = ""
    per_graph = 1
    workspace_bytes = 100
    of_exactly = "tiles"  # what "auto" takes for fixed rows

    def __init__(self, context, operator, **options):
        if self.refusal:
            raise ValueError(self.refusal)
        self.context, self.operator, self.options, self.runs = context, operator, options, []
        sizes = options["sizes"]
        self.rows, self.max_rows = options["rows"], sizes.get("m", next(iter(sizes.values())))
        self.dtype = options["dtype"]
        self.finished, self.prepared, self.is_closed = 0, [], False
        Operation.made.append(self)

    def run(self, tensors, num_rows, stream):
        if self.failure:
            raise RuntimeError(f"{self.failure}; finish() on all ranks goes on behind it")
        self.runs.append((tensors, num_rows, stream))

    def runs_per_graph(self, rows=None):
        return self.per_graph if "reuse=ack" not in self.schedule() else 1

    def prepare(self, num_rows):
        self.prepared.append(num_rows)

    def schedule(self, num_rows=None):
        if self.rows == "bucket":
            return "tiles" + _operations.ANY_ROWS
        return self.of_exactly if self.options["schedule"] == "auto" else self.options["schedule"]

    def close(self):
        self.is_closed = True

    def error(self):
        return self.failure

    def bad_ids(self):
        return 3 * len(self.runs)

    def finish(self):
        self.finished += 1
        if self.failure:
            raise RuntimeError(self.failure)


class Calls(unittest.TestCase):
    def setUp(self):
        Operation.made.clear()
        self.is_capturing, self.capability = False, (9, 0)
        self.contexts = []
        patched = [mock.patch.object(stretto, "Operation", Operation),
                   mock.patch.object(stretto, "Context", self.context),
                   mock.patch.object(torch.cuda, "current_stream", lambda device: "the stream"),
                   mock.patch.object(torch.cuda, "get_device_capability", lambda gpu: self.capability),
                   mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: self.is_capturing)]
        for one in patched:
            one.start()
            self.addCleanup(one.stop)

    def context(self, timeout_s, **named):
        named.setdefault("workspace_bytes", 0)
        made = types.SimpleNamespace(timeout_s=timeout_s, closed=False, **named)
        made.close = lambda: setattr(made, "closed", True)
        made.everyone = named["exchange"](b"secret %d" % named["rank"])
        self.contexts.append(made)
        return made

    def engine(self, schedule="auto", **options):
        """Of a group of one rank."""
        threads = st.Threads(1, timeout_s=60, schedule=schedule, **options)
        self.addCleanup(threads.close)
        return _gpu.Engine(threads.groups[0])

    @staticmethod
    def call(rows=4, n=16, out=None):
        return _calls.matmul_reduce(torch.zeros(rows, 8, dtype=torch.bfloat16),
                                    torch.zeros(n, 8, dtype=torch.bfloat16), 1)

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

    def test_one_operation_serves_many_row_counts(self):
        engine = self.engine("tiles")
        for rows in (1, 200, 256, 257, 400):
            made = engine.run(self.call(rows), "bf16", {})
            self.assertEqual(tuple(made["out"].shape), (rows, 16))
        small, large = Operation.made
        self.assertEqual(small.operator, "gemm-ar")
        self.assertEqual(small.options, {"dtype": "bf16", "rows": "bucket", "schedule": "tiles",
                                         "sizes": {"m": 256, "n": 16, "k": 8}, "measure_ms": None})
        self.assertEqual(large.options["sizes"]["m"], 512)
        self.assertEqual([rows for _, rows, _ in small.runs], [1, 200, 256])
        tensors, _, stream = large.runs[0]
        self.assertEqual(set(tensors), {"a", "b", "out"})
        self.assertEqual(stream, "the stream")
        self.assertEqual(len(self.contexts), 1)

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

    def test_row_counts_that_come_and_go_do_not_make_plans_for_ever(self):
        engine = self.engine()
        x, up = torch.zeros(4, 8).bfloat16(), torch.zeros(16, 8).bfloat16()

        def run(rows):
            engine.run(_calls.mlp(rows, x, [up, up], [], up.t().contiguous(), "swiglu", True, 1), "bf16", {})
        for rows in range(1, _operations.MOST_PLANS + 1):
            run(rows)
        with self.assertRaisesRegex(NotServed, "plans for 8 numbers of rows"):
            run(99)
        run(3)
        self.assertEqual(len(Operation.made), _operations.MOST_PLANS)

    @staticmethod
    def no_buckets():
        """Operations are made for fixed rows only, in the block."""
        real = Operation.__init__

        def refuse(operation, context, operator, **options):
            if options["rows"] == "bucket":
                raise ValueError("no schedule serves it")
            real(operation, context, operator, **options)
        return mock.patch.object(Operation, "__init__", refuse)

    def test_what_serves_no_fewer_rows_has_fixed_ones(self):
        engine = self.engine()
        x, w = torch.zeros(4, 8).bfloat16(), torch.zeros(16, 8).bfloat16()
        with self.no_buckets():
            for rows in (4, 4, 8):
                engine.run(_calls.gather_matmul(rows, x, w, w[:, 0].contiguous(), 1), "bf16", {})
        self.assertEqual([one.options["sizes"]["m"] for one in Operation.made], [4, 8])

    def test_rows_that_come_again_have_what_is_best_for_exactly_these(self):
        engine = self.engine()
        with mock.patch.object(Operation, "of_exactly", "decomposed"):
            for rows in (2048, 1100, 2048, 2048):
                engine.run(self.call(rows), "bf16", {})
                self.assertEqual(engine.told().may_change, len(Operation.made) == 1)
        self.assertEqual([(one.rows, one.max_rows, len(one.runs)) for one in Operation.made],
                         [("bucket", 2048, 2), ("fixed", 2048, 2)])

    def test_rows_that_come_again_keep_a_schedule_that_serves_any(self):
        engine = self.engine()
        for _ in range(3):
            engine.run(self.call(2048), "bf16", {})
        self.assertEqual([(one.rows, len(one.runs), one.is_closed) for one in Operation.made],
                         [("bucket", 3, False), ("fixed", 0, True)])

    def test_plans_of_exact_rows_go_in_graphs(self):
        engine = self.engine()
        x, up = torch.zeros(4, 8).bfloat16(), torch.zeros(16, 8).bfloat16()
        with mock.patch.object(Operation, "of_exactly", "decomposed,reuse=double"), \
                mock.patch.object(Operation, "per_graph", 2):
            call = _calls.mlp(4, x, [up, up], [], up.t().contiguous(), "swiglu", True, 1)
            engine.run(call, "bf16", {})
            self.is_capturing = True
            engine.run(call, "bf16", {})
        self.assertEqual([(one.options["schedule"], len(one.runs), one.is_closed) for one in Operation.made],
                         [("auto", 0, True), ("decomposed,reuse=ack", 2, False)])

    def test_rows_that_come_again_have_what_goes_in_graphs(self):
        engine = self.engine()
        with mock.patch.object(Operation, "of_exactly", "decomposed,reuse=double,tile=64x64"), \
                mock.patch.object(Operation, "per_graph", 2):
            for _ in range(2):
                engine.run(self.call(2048), "bf16", {})
            self.is_capturing = True
            engine.run(self.call(2048), "bf16", {})
        self.assertEqual([(one.options["schedule"], len(one.runs), one.is_closed) for one in Operation.made],
                         [("auto", 1, False), ("auto", 0, True), ("decomposed,reuse=ack,tile=64x64", 2, False)])

    def test_few_rows_captures_and_schedules_by_name_make_nothing_for_rows_that_come_again(self):
        engine, named = self.engine(), self.engine("tiles")
        with mock.patch.object(Operation, "of_exactly", "decomposed"):
            for rows in (1000, 1000, 2048):
                engine.run(self.call(rows), "bf16", {})
            self.is_capturing = True
            engine.run(self.call(2048), "bf16", {})
            self.is_capturing = False
            for _ in range(3):
                named.run(self.call(2048), "bf16", {})
            for rows in range(1024, 1024 + 2 * _operations.MOST_PLANS):  # no more than so many
                engine.run(self.call(rows), "bf16", {})
                engine.run(self.call(rows), "bf16", {})
        self.assertEqual([one.rows for one in Operation.made].count("fixed"), _operations.MOST_PLANS)

    def test_a_bucket_that_is_refused_hides_no_plan_of_as_many_rows(self):
        """256 and 512 rows are buckets, too."""
        engine = self.engine()
        with self.no_buckets():
            for rows in (256, 512, 200):
                engine.run(self.call(rows), "bf16", {})
        self.assertEqual([(one.options["rows"], one.options["sizes"]["m"]) for one in Operation.made],
                         [("fixed", 256), ("fixed", 512), ("fixed", 200)])

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
        self.assertEqual([one.finished for one in Operation.made], [1, 1])
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
