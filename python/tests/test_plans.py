"""Plans through the binding, with the library itself."""

import unittest

import stretto

OPERATOR = ("gemm-rs", 2048, 1024, 4096, 8)


class Plans(unittest.TestCase):
    def test_a_named_schedule_has_no_reason_and_is_predicted(self):
        plan = stretto.plan(*OPERATOR, schedule="tiles,tile=64x128")
        self.assertIn("tile=64x128", plan.schedule)
        self.assertEqual(plan.reason, "")
        self.assertGreater(plan.predicted_us, 1)
        self.assertLess(plan.predicted_us, 1e6)

    def test_a_schedule_that_was_printed_is_the_same_plan(self):
        plan = stretto.plan(*OPERATOR, schedule="tiles", rows="bucket")
        self.assertIn("rows=bucket", plan.schedule)
        self.assertEqual(stretto.plan(*OPERATOR, schedule=plan.schedule), plan)

    def test_auto_says_why(self):
        plan = stretto.plan("gemm-ar", 64, 8192, 7168, 4)
        self.assertNotEqual(plan.reason, "")

    def test_plans_are_proved(self):
        for schedule in ("tiles", "slices", "sequential"):
            self.assertEqual(stretto.check(*OPERATOR, schedule=schedule), [])

    def test_shapes(self):
        shape = stretto.shape
        self.assertEqual(shape("ag-gemm", 517, 960, 576, 4, "a"), (130, 576))
        self.assertEqual(shape("ag-gemm", 517, 960, 576, 4, "out"), (517, 240))
        self.assertEqual(shape("gemm-rs", 517, 960, 576, 4, "out", rows="bucket"), (192, 960))
        self.assertEqual(shape("gemm-ar", 517, 960, 576, 4, "out"), (517, 960))

    def test_a_torch_type_is_as_good_as_its_name(self):
        class DType:
            def __repr__(self):
                return "torch.float16"
        self.assertEqual(stretto.plan(*OPERATOR, schedule="tiles", dtype=DType()),
                         stretto.plan(*OPERATOR, schedule="tiles", dtype="fp16"))

    def test_mistakes_are_value_errors_that_say_what_would_be_right(self):
        for arguments, words, says in (
                (("gemm", 64, 64, 64, 1), {}, "known: ag-gemm, gemm-rs, gemm-ar"),
                (("gemm-rs", 64, 64, 65, 2), {}, "take k = 64 or 66"),
                (("gemm-rs", 64, 64, 64, 2), {"dtype": "torch.int8"}, "unknown dtype"),
                (("gemm-rs", 64.5, 64, 64, 2), {}, "m is 64.5; a whole number"),
                (("gemm-rs", 2**70, 64, 64, 2), {}, "too large"),
                (("gemm-rs", 64, 64, 64, 0), {}, "ranks is 0"),
                (("gemm-rs", 64, 64, 64, 2**31), {}, "ranks=2147483648 is too large"),
                (("gemm-rs", 64, 64, 64, -1), {}, "ranks is -1; it must be between 1 and 1024"),
                (("gemm-rs", -2**70, 64, 64, 2), {}, "is too small"),
                (("gemm-rs", True, 64, 64, 2), {}, "m is True; a whole number"),
                ((7, 64, 64, 64, 2), {}, "kind is 7; a string"),
                (OPERATOR, {"schedule": "fastest"}, "fastest"),
                (OPERATOR, {"schedule": "auto,tile=64x64"}, "auto stands alone"),
                (OPERATOR, {"machine": "\udcff"}, "unknown machine '\\xff'"),
                (OPERATOR, {"schedule": "tiles\0"}, "zero byte"),
                (OPERATOR, {"schedule": "sequential", "rows": "bucket"}, "rows=bucket"),
                (OPERATOR, {"rows": "some"}, '"bucket"'),
                (OPERATOR, {"machine": "nowhere"}, "nowhere")):
            with self.subTest(arguments=arguments, **words):
                with self.assertRaises(ValueError) as caught:
                    stretto.plan(*arguments, **words)
                self.assertIn(says, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))
        with self.assertRaisesRegex(ValueError, '"a", "b" or "out"'):
            stretto.shape(*OPERATOR, "c")


if __name__ == "__main__":
    unittest.main()
