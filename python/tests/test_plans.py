"""Plans through the binding, with the library itself."""

import math
import pathlib
import tempfile
import threading
import unittest

import stretto
from fakes import CpuTensor

OPERATOR = "gemm-rs"
SIZES = {"m": 2048, "n": 1024, "k": 4096, "ranks": 8}


class Plans(unittest.TestCase):
    def test_a_named_schedule_has_no_reason_and_is_predicted(self):
        plan = stretto.plan(OPERATOR, **SIZES, schedule="tiles,tile=64x128")
        self.assertIn("tile=64x128", plan.schedule)
        self.assertEqual(plan.reason, "")
        self.assertGreater(plan.predicted_us, 1)
        self.assertLess(plan.predicted_us, 1e6)

    def test_a_schedule_that_was_printed_is_the_same_plan(self):
        plan = stretto.plan(OPERATOR, **SIZES, schedule="tiles", rows="bucket")
        self.assertIn("rows=bucket", plan.schedule)
        again = stretto.plan(OPERATOR, **SIZES, schedule=plan.schedule)
        self.assertEqual((again.schedule, again.text()), (plan.schedule, plan.text()))

    def test_a_system_says_its_point(self):
        sizes = {"t": 64, "h": 256, "f": 128, "experts": 8, "k": 2, "ranks": 2}
        plan = stretto.plan("moe-ep", **sizes, schedule="deepep")
        self.assertIn("y:", plan.schedule)
        self.assertIn("the nearest point to DeepEP", plan.reason)
        with self.assertRaisesRegex(ValueError, "deepep has nothing for gathers"):
            stretto.plan("ag-gemm", m=64, n=64, k=64, ranks=2, schedule="deepep")

    def test_auto_says_why(self):
        plan = stretto.plan("gemm-ar", m=64, n=8192, k=7168, ranks=4)
        self.assertNotEqual(plan.reason, "")

    def test_plans_are_proved(self):
        for schedule in ("tiles", "slices", "sequential"):
            self.assertEqual(stretto.check(OPERATOR, **SIZES, schedule=schedule), [])

    def test_tensors_are_the_graphs(self):
        def shape(operator, tensor, rows="fixed", rank=0):
            return stretto.tensors(operator, m=517, n=960, k=576, ranks=4, rows=rows,
                                   rank=rank)[tensor].shape
        self.assertEqual(shape("ag-gemm", "a"), (130, 576))
        self.assertEqual(shape("ag-gemm", "a", rank=3), (127, 576))
        self.assertEqual(shape("ag-gemm", "out"), (517, 240))
        self.assertEqual(shape("gemm-rs", "out", rows="bucket"), (192, 960))
        self.assertEqual(shape("gemm-ar", "out"), (517, 960))
        mlp = stretto.tensors("mlp", m=64, h=32, f=64, ranks=2)
        self.assertEqual(list(mlp), ["x", "wg", "wu", "wd", "down"])
        self.assertEqual(mlp["wd"], stretto.TensorInfo("wd", "cols", False, (32, 32)))
        self.assertTrue(mlp["down"].is_output)

    def test_a_torch_type_is_as_good_as_its_name(self):
        class DType:
            def __repr__(self):
                return "torch.float16"
        self.assertEqual(stretto.plan(OPERATOR, **SIZES, schedule="tiles", dtype=DType()).text(),
                         stretto.plan(OPERATOR, **SIZES, schedule="tiles", dtype="fp16").text())

    def test_mistakes_are_value_errors_that_say_what_would_be_right(self):
        for operator, words, says in (
                ("gemm", {}, "known: a2a-gemm, ag-gemm"),
                (OPERATOR, {"k": 9}, "take k = 8 or 16"),
                (OPERATOR, {"dtype": "torch.int8"}, "unknown dtype"),
                (OPERATOR, {"m": 64.5}, "m is 64.5; a whole number"),
                (OPERATOR, {"n": 2**70}, "too large"),
                (OPERATOR, {"h": 64}, "'h=64' is not one of m=, n=, k=, ranks="),
                (OPERATOR, {"ranks": 0}, "ranks is 0"),
                (OPERATOR, {"ranks": 2**31}, "ranks=2147483648 is too large"),
                (OPERATOR, {"ranks": -1}, "ranks is -1; it must be between 1 and 1024"),
                (OPERATOR, {"m": True}, "m is True; a whole number"),
                (7, {}, "operator is 7; a string"),
                ("graph one m\ninput x [m, n] rows\n", {}, "unknown size 'n'"),
                (OPERATOR, {"schedule": "fastest"}, "fastest"),
                (OPERATOR, {"schedule": "auto,tile=64x64"}, "auto stands alone"),
                (OPERATOR, {"machine": "\udcff"}, "unknown machine '\\xff'"),
                (OPERATOR, {"schedule": "tiles\0"}, "zero byte"),
                (OPERATOR, {"schedule": "tiles\ud800"}, "is no text: it holds half a character"),
                (OPERATOR, {"schedule": "sequential", "rows": "bucket"}, "rows=bucket"),
                (OPERATOR, {"rows": "some"}, '"bucket"'),
                (OPERATOR, {"sizes": {"m": 1}}, "sizes are given twice: m"),
                (OPERATOR, {"machine": "nowhere"}, "nowhere")):
            with self.subTest(operator=operator, **words):
                with self.assertRaises(ValueError) as caught:
                    stretto.plan(operator, **{**SIZES, "schedule": "tiles", **words})
                self.assertIn(says, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))

    def test_a_graph_file_that_is_no_text_is_named(self):
        with tempfile.NamedTemporaryFile(suffix=".graph") as file:
            file.write(b"graph t m\n\xbd\n")
            file.flush()
            with self.assertRaisesRegex(ValueError, f"{file.name} is no text in UTF-8"):
                stretto.plan(pathlib.Path(file.name), m=8, ranks=2)


def values_of(rows, columns, seed):
    return [(row * 7 + column * 3 + seed) % 5 - 2 for row in range(rows) for column in range(columns)]


class OnTheCpu(unittest.TestCase):
    """gemm-rs and a graph of one's own, on tensors with the graph's names."""

    RANKS, M, N, K = 2, 6, 16, 32

    def setUp(self):
        share = self.K // self.RANKS
        self.a = [CpuTensor((self.M, share), values=values_of(self.M, share, r), gap=3)
                  for r in range(self.RANKS)]
        self.b = [CpuTensor((self.N, share), values=values_of(self.N, share, 2 + r))
                  for r in range(self.RANKS)]

    def expected(self):
        def product(a, b):
            return [[sum(x * y for x, y in zip(row, column)) for column in b.rows()]
                    for row in a.rows()]
        first, second = (product(a, b) for a, b in zip(self.a, self.b))
        return [[x + y for x, y in zip(*rows)] for rows in zip(first, second)]

    def sizes(self):
        return {"m": self.M, "n": self.N, "k": self.K}

    def test_an_operator_is_computed_with_gaps_and_more_dimensions(self):
        out = [CpuTensor((1, 3, self.N), gap=5), CpuTensor((3, self.N))]
        stretto.emulate("gemm-rs", {"a": self.a, "b": self.b, "out": out}, dtype="fp32",
                        **self.sizes())
        self.assertEqual(out[0].rows() + out[1].rows(), self.expected())

    def test_a_graph_of_ones_own(self):
        graph = ("graph twice m n k\ninput x [m, k] cols\ninput w [n, k] cols\ny = gemm x w\n"
                 "z = add y y\noutput z rows\n")
        z = [CpuTensor((3, self.N)) for _ in range(self.RANKS)]
        stretto.emulate(graph, {"x": self.a, "w": self.b, "z": z}, dtype="fp32", **self.sizes())
        self.assertEqual(z[0].rows() + z[1].rows(),
                         [[2 * value for value in row] for row in self.expected()])

    def test_teams_have_rows_of_their_own(self):
        graph = ("graph teams m n k\nteam tp 2\ninput x [m, k] cols of tp\ninput w [n, k] cols of tp\n"
                 "y = gemm x w\noutput y rows\n")
        sizes = {**self.sizes(), "m": 2 * self.M}
        for rank in range(4):
            of_rank = stretto.tensors(graph, ranks=4, rank=rank, **sizes)
            self.assertEqual(of_rank["x"].shape, self.a[0].shape)
            self.assertEqual(of_rank["w"].shape, self.b[0].shape)
            self.assertEqual(of_rank["y"].shape, (3, self.N))
        for schedule in ("tiles", "sequential"):
            y = [CpuTensor((3, self.N)) for _ in range(4)]
            stretto.emulate(graph, {"x": self.a + self.a[::-1], "w": self.b + self.b[::-1], "y": y},
                            dtype="fp32", schedule=schedule, **sizes)
            for team in (y[:2], y[2:]):  # terms in another order have the same sum
                self.assertEqual(team[0].rows() + team[1].rows(), self.expected())

    def test_a_router_hands_over_what_it_chose(self):
        graph = ("graph router t h e k\ninput x [t, h] rows\ninput wr [e, h] whole\ns = gemm x wr\n"
                 "ids = top_k s k=k\nw = softmax_gate s ids scale=2\noutput ids rows\noutput w rows\n")
        half = "torch.float16"
        x = [CpuTensor((rows, 16), half, [row == col for row in range(rows) for col in range(16)])
             for rows in (3, 2)]
        scores = values_of(8, 16, 1)  # of expert and column; token i of each rank has column i's
        wr = [CpuTensor((8, 16), half, scores) for _ in x]
        ids = [CpuTensor((one.shape[0], 3), "torch.int32") for one in x]
        w = [CpuTensor((one.shape[0], 3)) for one in x]
        stretto.emulate(graph, {"x": x, "wr": wr, "ids": ids, "w": w}, dtype="fp16", t=5, h=16, e=8, k=3)
        for rank, one in enumerate(x):
            for row in range(one.shape[0]):
                own = [scores[expert * 16 + row] for expert in range(8)]
                right = sorted(range(8), key=lambda expert: (-own[expert], expert))[:3]
                self.assertEqual(ids[rank].rows()[row], right)
                powers = [math.exp(own[expert]) for expert in right]
                for weight, power in zip(w[rank].rows()[row], powers):
                    self.assertAlmostEqual(weight, 2 * power / sum(powers), places=5)

    def test_ids_of_64_bits_are_taken_as_they_are(self):
        """The same bits as with those of 32; what has no room there is no expert's."""
        half, beyond = "torch.float16", 2**32 + 1
        x = [CpuTensor((2, 16), half, values_of(2, 16, r)) for r in range(2)]
        weights = [CpuTensor((2, 2), values=[1, 2, 1, 1]) for _ in x]
        wg, wu = ([CpuTensor((2, 16, 16), half, values_of(32, 16, r + s)) for r in range(2)] for s in (3, 1))
        wd = [CpuTensor((2, 16, 16), half, values_of(32, 16, r)) for r in range(2)]

        def result(operator, kind, *ids):
            y = [CpuTensor((2, 16), half) for _ in x]
            given = [CpuTensor((2, 2), f"torch.{kind}", one) for one in ids]
            bad = stretto.emulate(operator, {"x": x, "ids": given, "weights": weights, "wg": wg, "wu": wu, "wd": wd,
                                             "y": y}, dtype="fp16", t=4, h=16, f=16, experts=4, k=2)
            self.assertEqual(bad, sum(one < -1 or one > 3 for of_rank in ids for one in of_rank))
            return [one.rows() for one in y]

        right = result("moe-ep", "int32", [0, 3, 2, 1], [-1, 2, 3, 0])
        self.assertEqual(result("moe-ep-i64", "int64", [0, 3, 2, 1], [-1, 2, 3, 0]), right)
        self.assertNotEqual(result("moe-ep-i64", "int64", [0, 3, 2, 1], [1, 2, 3, 0]), right)
        self.assertEqual(result("moe-ep-i64", "int64", [0, 3, 2, 1], [beyond, 2, 3, 0]), right)
        self.assertEqual(result("moe-ep-i64", "int64", [0, 3, 2, 1], [-2**32, 2, 3, 0]), right)
        with self.assertRaisesRegex(ValueError, "ids.*i64"):
            result("moe-ep-i64", "int32", [0, 3, 2, 1], [-1, 2, 3, 0])

    def test_threads_count_their_own_ids(self):
        """Of one plan, which emulate() keeps for all threads."""
        half, wrong = "torch.float16", []

        def call(number):
            def tensors(rows, cols):
                return [CpuTensor((rows, cols), half, values_of(rows, cols, rank)) for rank in range(2)]

            given = {"x": tensors(2, 16), "wg": [CpuTensor((2, 16, 16), half, values_of(32, 16, r)) for r in range(2)],
                     "ids": [CpuTensor((2, 2), "torch.int32", [9] * number + [1] * (4 - number)) for _ in range(2)],
                     "weights": [CpuTensor((2, 2), values=[1, 2, 1, 1]) for _ in range(2)], "y": tensors(2, 16)}
            for name in ("wu", "wd"):
                given[name] = given["wg"]
            for _ in range(40):
                bad = stretto.emulate("moe-ep", given, dtype="fp16", t=4, h=16, f=16, experts=4, k=2)
                if bad != 2 * number:
                    wrong.append((number, bad))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_plan_serves_fewer_rows(self):
        plan = stretto.plan("gemm-rs", schedule="tiles", dtype="fp32", rows="bucket", ranks=2,
                            **{**self.sizes(), "m": 128})
        self.assertEqual(plan.check(), [])
        out = [CpuTensor((3, self.N)) for _ in range(self.RANKS)]
        plan.execute({"a": self.a, "b": self.b, "out": out}, self.M)
        self.assertEqual(out[0].rows() + out[1].rows(), self.expected())
        self.assertEqual(plan.tensors_of(1, 5)["out"].shape, (2, self.N))
        with self.assertRaisesRegex(ValueError, "129 rows; this plan serves 1 to 128"):
            plan.execute({}, 129)
        plan.execute({"a": self.a, "b": self.b, "out": out}, 0)  # does nothing
        self.assertEqual(out[0].rows() + out[1].rows(), self.expected())
        with self.assertRaisesRegex(ValueError, "tensors is a NoneType: tensors has a list for each name"):
            plan.execute(None, self.M)
        fixed = stretto.plan("gemm-rs", schedule="tiles", dtype="fp32", ranks=2, **self.sizes())
        with self.assertRaisesRegex(ValueError, "0 rows; this plan was made for 6"):
            fixed.execute({}, 0)

    def test_no_rank_is_taken_for_another(self):
        """Numbers that 32 bits have no room for."""
        plan = stretto.plan("gemm-rs", schedule="tiles", ranks=2, **self.sizes())
        for rank, says in ((2, "rank 2; the operator has ranks 0 to 1"), (2**32, "rank=4294967296 is too large"),
                           (-2**32 + 1, "rank=-4294967295 is too small")):
            with self.assertRaisesRegex(ValueError, says):
                plan.tensors_of(rank)
            with self.assertRaisesRegex(ValueError, says):
                stretto.tensors("gemm-rs", ranks=2, rank=rank, **self.sizes())

    def test_an_output_that_is_read_only_is_refused(self):
        class Array:
            def __init__(self, tensor, is_read_only):
                self.tensor = tensor
                self.__array_interface__ = {"shape": tensor.shape, "typestr": "<f4", "strides": None,
                                            "data": (tensor.data_ptr(), is_read_only)}
        out = [Array(CpuTensor((3, self.N)), rank == 1) for rank in range(self.RANKS)]
        inputs = {name: [Array(CpuTensor(one.shape, values=sum(one.rows(), [])), True) for one in by_rank]
                  for name, by_rank in (("a", self.a), ("b", self.b))}
        with self.assertRaisesRegex(ValueError, "tensor out is an output, and this array is read-only"):
            stretto.emulate("gemm-rs", {**inputs, "out": out}, dtype="fp32", **self.sizes())
        out[1] = Array(CpuTensor((3, self.N)), False)
        stretto.emulate("gemm-rs", {**inputs, "out": out}, dtype="fp32", **self.sizes())
        self.assertEqual(out[0].tensor.rows() + out[1].tensor.rows(), self.expected())

    def test_mistakes_name_the_tensor(self):
        out = [CpuTensor((3, self.N)) for _ in range(self.RANKS)]
        good = {"a": self.a, "b": self.b, "out": out}
        for words, says in (
                ({"a": self.a[:1]}, "a list of every rank|one a rank|a tensor of every rank"),
                ({"c": out}, "unknown tensor of gemm-rs 'c'"),
                ({"out": [CpuTensor((2, self.N))] * 2}, r"out has shape \(2, 16\); \[3, 16\]"),
                ({"b": [CpuTensor((self.N, 16), "torch.float16")] * 2}, "b is fp16; fp32"),
                ({"b": [[1], [2]]}, "b is a list")):
            with self.subTest(says):
                with self.assertRaisesRegex(ValueError, says):
                    stretto.emulate("gemm-rs", {**good, **words}, dtype="fp32", **self.sizes())
        with self.assertRaisesRegex(ValueError, "tensors has a list for each name"):
            stretto.emulate("gemm-rs", list(good.values()), dtype="fp32", **self.sizes())
        del good["out"]
        with self.assertRaisesRegex(ValueError, "out missing; it has a, b, out"):
            stretto.emulate("gemm-rs", good, dtype="fp32", **self.sizes())


if __name__ == "__main__":
    unittest.main()
