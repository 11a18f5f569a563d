"""What is refused: one line that says what is wrong, and what would be right."""

import threading
import unittest
import unittest.mock

from ranks import Copies, normal, run

import torch

import stretto
import stretto.torch as st
from stretto.torch import _emulator, _kernels, _meeting


class Bad(unittest.TestCase):
    """Each refusal on every rank, before anything is communicated."""

    x, w = normal(1, 6, 8), normal(2, 4, 8)

    def refused(self, call, message, error=ValueError):
        def attempt(group):
            with self.assertRaisesRegex(error, message) as caught:
                call(group)
            self.assertNotIn("\n", str(caught.exception))
        run(2, attempt)

    def test_bytes_of_a_tensor_are_as_many_as_it_has(self):
        with self.assertRaisesRegex(RuntimeError, r"^6 bytes are no \[2\] of torch.float32$"):
            _emulator.from_bytes(b"stroke", (2,), torch.float32)

    def test_shapes(self):
        wide = normal(3, 4, 9)
        self.refused(lambda g: st.matmul_all_reduce(self.x, wide, group=g),
                     r"^matmul_all_reduce: weight is \[4, 9\]; \[N, 8\] goes with x \[6, 8\]$")
        self.refused(lambda g: st.all_gather_matmul(self.x, [self.w, wide], group=g),
                     r"^all_gather_matmul: weight 1 is \[4, 9\]")
        self.refused(lambda g: st.all_gather_matmul(self.x, [], group=g), "no weight is given")
        self.refused(lambda g: st.all_gather_matmul(self.x, [self.w, self.w], [self.w[0]], g),
                     "^all_gather_matmul: 1 biases for 2 weights; one for each, or none")
        self.refused(lambda g: st.matmul_all_reduce(self.x, self.w, self.w[0], g),
                     r"the bias of weight is \[8\]; \[4\] goes with weight \[4, 8\]")
        self.refused(lambda g: st.matmul_all_reduce(self.x[0], self.w, group=g),
                     r"x is \[8\]; \[\.\.\., rows, columns\] was expected")
        self.refused(lambda g: st.matmul_all_reduce_add_rms_norm(
            self.x, self.w, self.x, self.w[0, :4], group=g),
                     r"residual is \[6, 8\]; \[6, 4\] is what comes")
        self.refused(lambda g: st.mlp(self.x, [self.w, self.w], self.w, g),
                     r"down is \[4, 8\]; \[8, 4\] goes with x \[6, 8\] and \[4, 8\] before it")
        self.refused(lambda g: st.mlp(self.x, self.w, self.w.t(), g), "1 weights before swiglu, which takes 2")
        self.refused(lambda g: st.mlp(self.x, self.w, self.w.t(), g, activation="relu"),
                     "activation is 'relu'; it is one of swiglu, gelu, silu")

    def test_dimensions(self):
        self.refused(lambda g: st.all_gather_matmul(self.x, self.w, group=g, dim=1),
                     r"dim is 1 of x \[6, 8\]; ranks share one of its leading dimensions, 0 to 0")
        self.refused(lambda g: st.all_gather_matmul(self.x, self.w, group=g, rows=20),
                     r"x has 6 of dimension 0; of rows=20 rank \d of 2 has 10")

    def test_types_and_devices(self):
        self.refused(lambda g: st.matmul_all_reduce(self.x, self.w.float(), group=g),
                     "weight is torch.float32 and x is torch.bfloat16: they must be alike")
        self.refused(lambda g: st.matmul_all_reduce(self.x, self.w.to("meta"), group=g),
                     "weight is on meta and x on cpu")
        self.refused(lambda g: st.matmul_all_reduce(self.x, self.w.to_sparse(), group=g),
                     "weight is sparse_coo; a dense tensor was expected")
        self.refused(lambda g: st.matmul_all_reduce(self.x.int(), self.w.int(), group=g),
                     "x is torch.int32; a floating type was expected")
        self.refused(lambda g: st.matmul_all_reduce(*(one.to(torch.float8_e4m3fn) for one in (self.x, self.w)), group=g),
                     "x is torch.float8_e4m3fn, whose products need scales, .*: give it in bf16 or fp16")

    def test_what_is_no_tensor(self):
        ids, stack = torch.zeros(6, 2, dtype=torch.int32), torch.zeros(2, 8, 8).bfloat16()
        for call, message in (
                (lambda g: st.matmul_all_reduce(None, self.w, group=g),
                 "^matmul_all_reduce: x is None; a tensor was expected$"),
                (lambda g: st.matmul_all_reduce(self.x, 3, group=g), "matmul_all_reduce: weight is of type int; a"),
                (lambda g: st.all_gather_matmul(self.x, [self.w, None], group=g),
                 "all_gather_matmul: weight 1 is None"),
                (lambda g: st.all_gather_matmul(self.x, 3, group=g), "all_gather_matmul: weight is of type int"),
                (lambda g: st.column_matmul(None, self.w, group=g), "column_matmul: x is None"),
                (lambda g: st.mlp(None, [self.w] * 2, self.w, g), "mlp: x is None"),
                (lambda g: st.mlp(self.x, [self.w] * 2, None, g), "mlp: down is None"),
                (lambda g: st.matmul_all_to_all(self.x, None, group=g), "matmul_all_to_all: weight is None"),
                (lambda g: st.embedding_all_to_all(ids, None, g), "embedding_all_to_all: tables is None"),
                (lambda g: st.matmul_all_reduce_add_rms_norm(self.x, self.w, None, self.w, group=g),
                 "residual is None"),
                (lambda g: st.moe_with_router(self.x, self.w, stack, None, stack, 2, g), "moe_with_router: up is None"),
                (lambda g: st.run_graph("gemm-ar", {"a": self.x, "b": None}, g, m=6, n=4, k=16),
                 "run_graph: b is None"),
                (lambda g: st.matmul_all_reduce(self.x, self.w, group=g, out="y"), "out is of type str; a tensor"),
                (lambda g: st.matmul_reduce_scatter(self.x, self.w, group=g, dim="a"), "dim is 'a'; a whole number"),
                (lambda g: st.mlp(self.x, [self.w] * 2, self.w, g, activation=None), "activation is None; a text was"),
                (lambda g: st.moe_with_router(self.x, self.w, *[stack] * 3, None, g), "k is None; a whole number was"),
                (lambda g: st.matmul_all_reduce_add_rms_norm(self.x, self.w, self.x, self.w, "1", g),
                 "eps is '1'; a number was expected"),
                (lambda g: st.matmul_all_to_all(self.x, self.w, group=g, rows=[6]),
                 r"rows is \[6\]; a whole number was"),
                (lambda g: st.all_to_all_matmul(self.x, self.w, group=g, dim=None), "dim is None; a whole number was"),
                (lambda g: st.embedding_all_to_all(ids.view(6, 2, 1), stack, g, num_tables="2"),
                 "embedding_all_to_all: num_tables is '2'; a whole number was expected"),
                (lambda g: st.moe_with_router(self.x, self.w, *[stack] * 3, 2, g, rows=[6]), r"rows is \[6\]; a whole"),
                (lambda g: st.moe_with_router(self.x, self.w, *[stack] * 3, 2, g, normalise="no"),
                 "normalise is 'no'; True or False was expected"),
                (lambda g: st.mlp(self.x, [self.w] * 2, self.w, g, sequence_parallel=None),
                 "mlp: sequence_parallel is None; True or False was"),
                (lambda g: st.all_gather_matmul(self.x, self.w, group=g, keep_gathered="x"), "keep_gathered is 'x'; T"),
                (lambda g: st.moe(self.x, ids, None, stack, stack, stack, g), "moe: weights is None; a tensor was")):
            self.refused(call, message, TypeError)
        # A mask of experts is no list of them.
        self.refused(lambda g: st.moe(self.x, ids.bool(), torch.ones(6, 2), *[stack] * 3, g),
                     r"ids is torch.bool \[6, 2\]; whole numbers \[\.\.\., k\] go with x")

    def test_shares_that_are_not_of_one_size(self):
        """As a caller's own layers may have, in blocks of 16 bytes: all ranks are told."""
        x = normal(1, 6, 24)

        def uneven(columns, group):
            return normal(2, columns[group.rank], 24), normal(3, 24, columns[group.rank])
        for columns in ((16, 8), (12, 8)):
            for call, op, what, sizes in (
                    (lambda g: st.all_gather_matmul(x, uneven(columns, g)[0], group=g), "all_gather_matmul", "n",
                     [2 * one for one in columns]),
                    (lambda g: st.matmul_reduce_scatter(x[:, :columns[g.rank]], uneven(columns, g)[1], group=g),
                     "matmul_reduce_scatter", "k", [2 * one for one in columns]),
                    (lambda g: st.mlp(x, [uneven(columns, g)[0]] * 2, uneven(columns, g)[1], g), "mlp", "f",
                     [2 * one for one in columns])):
                self.refused(call, f"^ranks disagree at {op}: {what} is {sizes[0]} on rank 0, {sizes[1]} on rank 1$")

    def test_outputs(self):
        out = torch.empty(6, 4).bfloat16()
        for bad, message in ((out[:5], r"out is \[5, 4\]; \[6, 4\] is what comes"),
                             (torch.empty(4, 6).bfloat16().t(), "out has gaps or another order"),
                             (out.float(), "out is torch.float32"),
                             (self.x.view(-1)[:24].view(6, 4), "out overlaps x: give it memory of its own"),
                             (self.w.view(-1)[8:].view(6, 4), "out overlaps weight")):
            self.refused(lambda g: st.matmul_all_reduce(self.x, self.w, group=g, out=bad), message)
        for op, rows in ((st.all_gather_matmul, 12), (st.matmul_reduce_scatter, 3), (st.matmul_all_reduce, 6)):
            bad = torch.zeros(rows, 4).bfloat16()
            self.refused(lambda g: op(self.x, self.w, bad[1], g, out=bad), "out overlaps bias")
        for w, needs in ((self.w.clone().requires_grad_(), out), (self.w, out.clone().requires_grad_())):
            self.refused(lambda g: st.matmul_all_reduce(self.x, w, group=g, out=needs), "out has no gradient")
        wide, scale = torch.zeros(12, 4).bfloat16(), normal(3, 4)
        self.refused(lambda g: st.all_gather_matmul(self.x, [self.w, wide.view(6, 8)[:4]], group=g, out=wide.view(
            -1)[24:].view(3, 8)), r"out is \[3, 8\]; \[12, 8\] is what comes")
        many = torch.zeros(4, 24).bfloat16().view(12, 8)
        self.refused(lambda g: st.all_gather_matmul(self.x, [self.w, many[:4]], group=g, out=many),
                     "out overlaps weight 1: give it memory")
        self.refused(lambda g: st.column_matmul(self.x, many[:4], scale, g, out=many.view(-1)[:24].view(6, 4)),
                     "^column_matmul: out overlaps weight")
        self.refused(lambda g: st.mlp(self.x, [self.w, self.w], self.w.t(), g, out=self.x), "^mlp: out overlaps x")
        residual = torch.zeros(6, 4).bfloat16()
        for outs, message in (((out, residual), r"out\[1\] overlaps residual"),
                              ((out, out), r"out\[1\] overlaps out\[0\]"),
                              ((out[:5], out), r"out\[0\] is \[5, 4\]"),
                              (out, "out is a tensor; a tuple of 2 tensors was expected, for normed and s")):
            self.refused(lambda g: st.matmul_all_reduce_add_rms_norm(
                self.x, self.w, residual, scale, group=g, out=outs), message)

    def test_what_is_not_served_where_there_is_no_fallback(self):
        self.refused(lambda g: st.matmul_all_reduce(self.x.double(), self.w.double(), group=g),
                     "is not served for group 'threads.*': tensors are float64, and on cpu Stretto takes "
                     "bf16, fp16, fp32")

    def test_schedules(self):
        with self.assertRaisesRegex(ValueError, "is not served for group .*whose tiles wait for no rows"):
            run(2, lambda g: st.matmul_all_reduce(self.x, self.w, group=g), schedule="tiles,start=wave")


class Groups(unittest.TestCase):
    def test_numbers_of_threads(self):
        for ranks in (0, -3, 2.5):
            with self.assertRaisesRegex(ValueError, f"ranks is {ranks}; a whole number from 1 to 1024 was expected"):
                st.run_threads(lambda group: None, ranks)

    def test_what_is_no_group(self):
        with self.assertRaisesRegex(ValueError, r"init_process_group\(\) first, or use"):
            st.matmul_all_reduce(Bad.x, Bad.w)
        with self.assertRaisesRegex(ValueError, "no group is called 'tp'"):
            st.matmul_all_reduce(Bad.x, Bad.w, group="tp")
        with self.assertRaisesRegex(ValueError, "group is 3; a ProcessGroup"):
            st.matmul_all_reduce(Bad.x, Bad.w, group=3)
        with self.assertRaisesRegex(ValueError, "timeout_s is 0"):
            st.init("tp", timeout_s=0)
        with self.assertRaisesRegex(ValueError, "measure_ms is -1; a number of milliseconds from 0 to 60000"):
            st.init("tp", measure_ms=-1)

    def test_options_are_looked_at_before_any_call(self):
        with self.assertRaisesRegex(ValueError, r"timeout_s is -1; seconds above 0"):
            st.Threads(2, timeout_s=-1)
        with self.assertRaisesRegex(ValueError, r"timeout_s is 'long'; seconds above 0"):
            st.Threads(2, timeout_s="long")
        with self.assertRaisesRegex(ValueError, r"unknown strategy 'tilez' \(did you mean 'tiles'\?\)"):
            st.Threads(2, schedule="tilez")
        with self.assertRaisesRegex(ValueError, "auto chooses for all of an operator"):
            st.Threads(2, schedule="split=2/auto")
        with self.assertRaisesRegex(ValueError, "unknown coordinate 'foo'"):
            st.init("tp", schedule="tiles,foo=1")
        with self.assertRaisesRegex(ValueError, "schedule is None; a text as 'auto'"):
            st.Threads(2, schedule=None)
        for of_some in ("tiles,start=wave", "tiles/down:slices"):  # of gathers, of an MLP
            st.Threads(2, schedule=of_some).close()

    def test_ranks_that_disagree_are_named(self):
        def call(group):
            st.all_gather_matmul(Bad.x[:4] if group.rank == 1 else Bad.x, Bad.w, group=group)
        with self.assertRaisesRegex(ValueError, "^ranks disagree at all_gather_matmul: m is 18 on ranks 0 "
                                                "and 2, 12 on rank 1$"):
            run(3, call)

        bias = normal(3, 4)
        with self.assertRaisesRegex(ValueError, "^ranks disagree at all_gather_matmul: bias is given on rank 0, None "
                                                "on rank 1$"):
            run(2, lambda g: st.all_gather_matmul(Bad.x, Bad.w, None if g.rank else bias, g))
        with self.assertRaisesRegex(ValueError, ": eps is 0.5 on rank 0, 0.25 on rank 1$"):
            run(2, lambda g: st.matmul_all_reduce_add_rms_norm(
                Bad.x, Bad.w, normal(4, 6, 4), bias, 0.25 if g.rank else 0.5, g))

        ids, stack = torch.zeros(6, 2, dtype=torch.int32), torch.zeros(2, 8, 8).bfloat16()
        weights = torch.ones(6, 2)
        with self.assertRaisesRegex(ValueError, "^ranks disagree at moe: weights is bfloat16 on rank 0, float32 on "
                                                "rank 1$"):
            run(2, lambda g: st.moe(Bad.x, ids, weights if g.rank else weights.bfloat16(), stack, stack, stack, g))
        with self.assertRaisesRegex(ValueError, "expert_parallel is False on rank 0, True on rank 1$"):
            run(2, lambda g: st.moe(Bad.x, ids, weights, *[stack] * 3, g, expert_parallel=bool(g.rank)))

    def test_ranks_that_give_moe_other_sizes_are_named(self):
        """Each of them fits what else the rank gives."""
        def sizes(h, f, experts, k):
            ids = torch.zeros(6, k, dtype=torch.int32)
            stacks = [torch.zeros(experts, *shape).bfloat16() for shape in ((f, h), (f, h), (h, f))]
            return torch.zeros(6, h).bfloat16(), ids, torch.ones(6, k), *stacks

        usual = {"h": 8, "f": 16, "experts": 2, "k": 2}
        for dealt in (False, True):
            width = 1 if dealt else 2  # of an expert, over what a rank has of it
            every = 2 if dealt else 1  # of all experts, over those of a rank
            for name, other, says in (("k", 1, "k is 2 on rank 0, 1 on rank 1"),
                                      ("h", 16, "h is 8 on rank 0, 16 on rank 1"),
                                      ("f", 32, f"f is {16 * width} on rank 0, {32 * width} on rank 1"),
                                      ("experts", 3, f"experts is {2 * every} on rank 0, {3 * every} on rank 1")):
                with self.subTest(name, dealt=dealt):
                    with self.assertRaisesRegex(ValueError, f"^ranks disagree at moe: {says}$"):
                        run(2, lambda g: st.moe(*sizes(**usual | ({name: other} if g.rank else {})), g,
                                                expert_parallel=dealt))
        with self.assertRaisesRegex(ValueError, "^ranks disagree at moe: k is 2 on ranks 0 and 1, 1 on rank 2$"):
            run(3, lambda g: st.moe(*sizes(**usual | ({"k": 1} if g.rank == 2 else {})), g))

    def test_ranks_that_deal_other_dimensions_are_named(self):
        """Rows of the same number."""
        x, w, bias = normal(1, 2, 2, 8), normal(2, 4, 8), normal(3, 4)
        for operator in (st.all_gather_matmul, st.matmul_reduce_scatter, st.matmul_all_to_all, st.all_to_all_matmul):
            tensors = (x, w) if operator is not st.all_to_all_matmul else (x, normal(2, 4, 16))
            with self.subTest(operator.__name__):
                with self.assertRaisesRegex(ValueError, f"^ranks disagree at {operator.__name__}: dim is 0 on rank 0, "
                                                        "1 on rank 1$"):
                    run(2, lambda g: operator(*tensors, group=g, dim=g.rank))
        with self.assertRaisesRegex(ValueError, "^ranks disagree at mlp: dim is 0 on rank 0, 1 on rank 1$"):
            run(2, lambda g: st.mlp(x, w, w.t(), g, activation="gelu", sequence_parallel=True, dim=g.rank))
        with self.assertRaisesRegex(ValueError, "other dimensions is 6 on rank 0, 3 on rank 1$"):
            run(2, lambda g: st.all_gather_matmul(x.new_zeros((2, 3, 8) if g.rank else (1, 6, 8)), w, group=g))
        for operator in (st.matmul_reduce_scatter, st.matmul_all_reduce):
            with self.assertRaisesRegex(ValueError, ": bias is given on rank 0, None on rank 1$"):
                run(2, lambda g: operator(x, w, None if g.rank else bias, g))

    def test_a_rank_that_failed_is_not_waited_for(self):
        def call(group):
            if group.rank == 1:
                raise KeyError("its own")
            with self.assertRaisesRegex(RuntimeError, "rank 1 of 3 left before matmul_all_reduce"):
                st.matmul_all_reduce(Bad.x, Bad.w, group=group)
        with self.assertRaisesRegex(KeyError, "its own"):
            run(3, call)


class Meetings(unittest.TestCase):
    """Ranks that come late, and ranks that come again."""

    def seats(self, ranks):
        store = torch.distributed.HashStore()
        return [_meeting.Meeting(store, rank, ranks, 0.05) for rank in range(ranks)]

    def test_who_comes_again_meets_who_was_late(self):
        early, late = self.seats(2)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "rank 1 of 2 did not come to it"):
                early.agree("it", {"m": 1})
        self.assertEqual(len(late.agree("it", {"m": 1})), 2)
        early.agree("it", {"m": 1})
        with self.assertRaisesRegex(ValueError, "m is 3 on rank 0, 2 on rank 1"):
            late.timeout_s = 0
            with self.assertRaises(RuntimeError):
                late.agree("next", {"m": 2})
            early.agree("next", {"m": 3})

    def test_threads_that_call_at_once_are_told(self):
        """Of one rank. Who waits for the other ranks goes on."""
        said, is_in = [], threading.Event()

        def call(group):
            if group.rank == 0:
                is_in.wait(20)
                with self.assertRaisesRegex(RuntimeError, "^another thread of rank 1 is in a call of this group at "
                                                          "mlp: "):
                    st.mlp(Bad.x, [Bad.w, Bad.w], Bad.w.t(), threads.groups[1])
                said.append("told")
                return st.matmul_all_reduce(Bad.x, Bad.w, group=group)
            agree = group.meeting.agree
            with unittest.mock.patch.object(group.meeting, "agree", lambda *given: is_in.set() or agree(*given)):
                return st.matmul_all_reduce(Bad.x, Bad.w, group=group)

        with st.Threads(2, timeout_s=60) as threads:
            first, second = threads.run(call)
        self.assertEqual(said, ["told"])
        self.assertTrue(torch.equal(first, second))

    def test_a_store_that_is_gone_is_named(self):
        seat, _ = self.seats(2)
        gone = torch.distributed.DistNetworkError("Connection reset by peer")
        for name in ("set", "check"):
            with unittest.mock.patch.object(torch.distributed.HashStore, name, side_effect=gone):
                with self.assertRaisesRegex(RuntimeError, "^the store by which ranks meet does not answer: the process "
                                                          "that has it, mostly that of rank 0, has ended$"):
                    seat.agree("it", {"m": 1})


class Fallback(unittest.TestCase):
    def test_what_pytorch_serves_is_counted_with_its_reason(self):
        x, w = Bad.x.double(), Bad.w.double()
        for y in run(2, lambda g: st.matmul_all_reduce(x, w, group=g), fallback=True):
            self.assertTrue(torch.allclose(y, 2 * x @ w.t()))
        (op, reason), = st.report().fallbacks
        self.assertEqual(op, "matmul_all_reduce")
        self.assertIn("float64", reason)
        self.assertEqual(st.report().fallbacks[op, reason], 2)
        self.assertIn("2 x matmul_all_reduce: PyTorch's, tensors are float64", str(st.report()))

    def test_an_operator_in_parts(self):
        """Its parts are Stretto's still: without a fallback, too."""
        x, up = normal(1, 4, 16), normal(2, 8, 16) / 4
        reason = "tiles do not serve it"
        with unittest.mock.patch("stretto.torch._emulator.stretto.emulate", self.refuse_mlp(reason)):
            for parallel in (False, True):
                parts = run(2, lambda g: st.mlp(x, [up, up], up.t(), g, sequence_parallel=parallel))
                self.assertEqual(st.report().fallbacks, {("mlp", f"in parts: {reason}"): 2})
                self.assertEqual(sum(st.report().served.values()), 4 if parallel else 2)
                self.assertIn("2 x mlp: in parts: tiles do not", str(st.report()))
                for one, other in zip(parts, self.real_mlp(x, up, parallel)):
                    self.assertTrue(torch.allclose(one.float(), other.float(), atol=0.05))
            normed = run(2, lambda g: st.matmul_all_reduce_add_rms_norm(x, up, normal(3, 4, 8), up[:, 0], group=g))
            self.assertEqual(st.report().served, {"matmul_all_reduce": 2})
        whole = run(2, lambda g: st.matmul_all_reduce_add_rms_norm(x, up, normal(3, 4, 8), up[:, 0], group=g))
        for one, other in zip(normed[0], whole[0]):
            self.assertTrue(torch.allclose(one.float(), other.float(), atol=0.05))

    def test_an_mlp_in_parts_copies_no_weights(self):
        x, gate, up = normal(1, 4, 16), normal(2, 8, 16) / 4, normal(3, 8, 16) / 4
        down, biases = normal(4, 16, 8).contiguous(), [normal(5, 8), normal(6, 8)]
        found = []

        def call(group):
            with Copies(up.numel()) as copies:
                y = _kernels.mlp(x, [gate, up], biases, down, "swiglu", group.name)
            found.extend(copies.found)
            return y

        with unittest.mock.patch("stretto.torch._emulator.stretto.emulate", self.refuse_mlp("tiles do not serve it")):
            parts = run(2, call)
        self.assertEqual(st.report().fallbacks, {("mlp", "in parts: tiles do not serve it"): 2})
        self.assertEqual(found, [])
        made = [torch.nn.functional.linear(x, *one).float() for one in zip((gate, up), biases)]
        hidden = torch.nn.functional.silu(made[0]) * made[1]
        self.assertTrue(torch.allclose(parts[0].float(), 2 * hidden @ down.float().t(), atol=0.1, rtol=0.05))

    def test_biases_with_gaps_are_served(self):
        x, up, bias = normal(1, 4, 16), normal(2, 8, 16) / 4, normal(3, 8, 2)[:, 0]
        experts = normal(5, 4, 8, 16), normal(6, 4, 8, 16), normal(7, 4, 16, 8)
        run(2, lambda g: st.mlp(x, [up, up], up.t(), g, up_bias=[bias, bias]))
        self.assertEqual(st.report().fallbacks, {})
        run(2, lambda g: st.moe_with_router(x, up[:4], *experts, 2, g, bias=bias[:4].float(), scores="sigmoid"))
        self.assertEqual(st.report().fallbacks, {})
        run(2, lambda g: st.moe_with_router(x, up[:4], *experts, 2, g, bias=normal(3, 4, 2, dtype=torch.float32)[:, 0],
                                            scores="sigmoid"))
        self.assertEqual(st.report().fallbacks, {})

    @staticmethod
    def refuse_mlp(reason):
        real = stretto.emulate

        def emulate(graph, *arguments, **named):
            if graph in ("mlp", "mlp-ar", "gemm-ar-norm") or graph.startswith("graph mlp-"):
                raise ValueError(reason)
            return real(graph, *arguments, **named)
        return emulate

    @staticmethod
    def real_mlp(x, up, parallel):
        whole = torch.cat([x, x]) if parallel else x
        gate = torch.nn.functional.linear(whole.float(), up.float())
        y = 2 * (torch.nn.functional.silu(gate) * gate) @ up.float()
        return y.chunk(2) if parallel else [y, y]

    def test_no_columns(self):
        for y in run(2, lambda g: st.matmul_all_reduce(torch.ones(3, 0), torch.ones(4, 0), group=g),
                     fallback=True):
            self.assertTrue(torch.equal(y, torch.zeros(3, 4)))
        self.assertIn("k is 0", str(st.report()))
        x, w = torch.ones(2, 4, 3, requires_grad=True), torch.ones(0, 3)
        for operator, size in ((st.all_gather_matmul, 4), (st.matmul_reduce_scatter, 1), (st.matmul_all_reduce, 2),
                               (st.column_matmul, 2)):
            def call(group):
                y = operator(x, w, group=group)
                gradient, = torch.autograd.grad(y.sum(), x)
                return y.shape, gradient

            for shape, gradient in run(2, call, fallback=True):
                self.assertEqual(tuple(shape), (size, 4, 0))
                self.assertTrue(torch.equal(gradient, torch.zeros(2, 4, 3)))


if __name__ == "__main__":
    unittest.main()
