"""Which operation serves calls of so many rows: one for any number, or one for exactly these."""

from unittest import mock

from fake_operations import OnOperations, Operation

import torch

from stretto.torch import _calls, _operations
from stretto.torch._refusals import NotServed


class Rows(OnOperations):
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

    def test_few_rows_that_come_again_have_what_cannot_leave_out_rows(self):
        engine = self.engine()
        few = range(8, 8 + 2 * _operations.MOST_FEW_PLANS)
        with mock.patch.object(Operation, "of_exactly", "whole,gemm=few-rows"):
            for rows in (*few, *few, *few, 2048, 2048, 2048):
                engine.run(self.call(rows), "bf16", {})
        serving, *exact = Operation.made
        self.assertEqual(serving.rows, "bucket")
        self.assertEqual([(one.max_rows, len(one.runs)) for one in exact if one.rows == "fixed"],
                         [*((rows, 2) for rows in few[:_operations.MOST_FEW_PLANS]), (2048, 2)])

    def test_few_rows_have_nothing_else_of_their_own(self):
        engine = self.engine()
        with mock.patch.object(Operation, "of_exactly", "whole,gemm=library"):
            for _ in range(3):
                engine.run(self.call(64), "bf16", {})
        self.assertEqual([(one.rows, len(one.runs), one.is_closed) for one in Operation.made],
                         [("bucket", 3, False), ("fixed", 0, True)])

    def test_some_rows_captures_and_schedules_by_name_make_nothing_for_rows_that_come_again(self):
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
