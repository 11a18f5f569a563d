"""Calls that come again: what the library is given for them, and when they go the long way. Tensors lie on the CPU."""

import ctypes
import os
import sys
import types
import unittest
from unittest import mock

from ranks import normal
from test_torch_graphs import ROUTER

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import stretto
import stretto.torch as st
from stretto._library import CCallTensor
from stretto.torch import _again, _checked, _engine, _gpu, _records, _repeats, _serve
from stretto.operations import ADDRESS, WORDS, tensors_in
from stretto.torch._checked import Checked

view_of = sys.modules["stretto.tensors"].view_of  # stretto.tensors is a function, too


class Other(torch.Tensor):
    """What others may have made of a tensor."""


class Operation(stretto.Operation):
    """One that is never made: its tensors are those that the library says of the operator."""

    made = []

    def __init__(self, context, operator, *, dtype, schedule, rows, sizes, measure_ms):
        self._handle, self._context = ctypes.c_void_p(1), types.SimpleNamespace(gpu=0)
        self.dtype = dtype
        self._kept, self.runs, self.rows = {}, 1, rows
        of_rows = "m" if "m" in sizes else next(iter(sizes))
        self.max_rows = sizes[of_rows]
        self._infos = lambda count: stretto.tensors(operator, ranks=1, dtype=dtype,
                                                    sizes={**sizes, of_rows: count})
        Operation.made.append(self)

    def runs_per_graph(self, num_rows=None):
        return self.runs

    def bad_ids(self):
        return 0


ENQUEUE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)


class Again(unittest.TestCase):
    """By the library, where PyTorch lets it look at tensors."""

    way = _repeats.Repeats if hasattr(torch.Tensor, _repeats.ATTRIBUTE) else Checked

    def setUp(self):
        Operation.made.clear()
        _records.forget()
        self.enqueued, self.status, self.is_capturing = [], 0, False
        operations = types.SimpleNamespace(enqueue=self.long_way)
        library = types.SimpleNamespace(enqueue=ENQUEUE(self.enqueue), fail=self.fail)
        objects = _repeats.objects() if self.way is _repeats.Repeats else None
        for one in (
                mock.patch.object(_repeats, "objects", lambda: objects),
                mock.patch.object(stretto, "Operation", Operation),
                mock.patch.object(stretto, "Context", lambda *given, **named: mock.Mock()),
                mock.patch.dict(sys.modules["stretto.operations"].__dict__, {
                    "on_gpu": lambda tensor, name, gpu: view_of(tensor, name), "library": lambda: operations}),
                mock.patch.object(_records, "library", lambda: library),
                mock.patch.object(_checked, "library", lambda: library),
                mock.patch.object(_records, "DEVICE", "cpu"),
                mock.patch.object(_records, "_is_capturing", lambda: self.is_capturing),
                mock.patch.object(torch._C, "_cuda_getCurrentRawStream", lambda index: 77, create=True),
                mock.patch.object(torch.cuda, "current_stream", lambda device: 77),
                mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False),
                mock.patch.object(torch.cuda, "get_device_capability", lambda gpu: (9, 0)),
                mock.patch.dict(_engine.ENGINES, {"cpu": _gpu.Engine})):
            one.start()
            self.addCleanup(one.stop)
        threads = st.Threads(1, timeout_s=60)
        self.addCleanup(threads.close)
        self.group = threads.groups[0]
        st.reset_report()

    def noted(self, way, rows, array, count, stream):
        given = {array[i].name.decode(): (array[i].address, array[i].row_stride) for i in range(count)}
        self.enqueued.append((way, rows, given, stream))

    def long_way(self, handle, rows, words, count, stream):
        self.noted("long", rows, tensors_in(words), count, stream)
        return 0

    def enqueue(self, handle, rows, array, count, stream):
        self.noted("again", rows, (CCallTensor * count).from_address(array), count, stream)
        return self.status

    def fail(self, status):
        raise RuntimeError(f"status {status}")

    def ways(self):
        found = [way for way, *_ in self.enqueued]
        self.enqueued.clear()
        return found

    x, w = torch.zeros(2, 4, 64, dtype=torch.bfloat16), torch.zeros(32, 64, dtype=torch.bfloat16)

    def test_every_operator_gets_its_tensors_and_new_results(self):
        x, w, group = self.x, self.w, self.group
        up, down, residual = torch.zeros_like(w), torch.zeros(64, 32).bfloat16(), torch.zeros(2, 4, 32).bfloat16()
        scale = torch.ones(32).bfloat16()
        parts, both = list(torch.zeros(64, 64).bfloat16().split([16, 48])), torch.zeros(64).bfloat16()
        inner = torch.zeros(2, 32).bfloat16()
        ids, weights = torch.zeros(2, 4, 2).int(), torch.zeros(2, 4, 2)
        wide, own = ids.long(), weights.bfloat16()
        experts = [torch.zeros(3, *shape).bfloat16() for shape in ((16, 64), (16, 64), (64, 16))]
        bags, wide_bags = torch.zeros(8, 3, 2).int(), torch.zeros(8, 3, 2).long()
        for call, inputs, shape in (
                (lambda: st.all_gather_matmul(x, w, group=group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.all_gather_matmul(x, w, scale, group), {"a": x, "b": w, "c": scale}, (2, 4, 32)),
                (lambda: st.all_gather_matmul(x, parts, group=group)[0]._base, {"a": x, "b": parts[0]}, (2, 4, 64)),
                (lambda: st.all_gather_matmul(x, parts, both.split([16, 48]), group)[1]._base,
                 {"a": x, "b": parts[0], "c": both}, (2, 4, 64)),
                (lambda: st.matmul_reduce_scatter(x, w, group=group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.matmul_all_reduce(x, w, group=group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.matmul_all_reduce(x, w, scale, group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.matmul_all_reduce_add_rms_norm(x, w, residual, scale, 1e-5, group),
                 {"a": x, "b": w, "r": residual, "w": scale}, (2, 4, 32)),
                (lambda: st.mlp(x, [w, up], down, group), {"x": x, "wg": w, "wu": up, "wd": down}, (2, 4, 64)),
                (lambda: st.mlp(x, [w, up], down, group, up_bias=list(inner)),
                 {"x": x, "wg": w, "wu": up, "c0": inner[0], "c1": inner[1], "wd": down}, (2, 4, 64)),
                (lambda: st.mlp(x, w, down, group, activation="gelu", sequence_parallel=True),
                 {"x": x, "wg": w, "wd": down}, (2, 4, 64)),
                (lambda: st.moe(x, ids, weights, *experts, group), dict(zip(
                    ("x", "ids", "weights", "wg", "wu", "wd"), (x, ids, weights, *experts))), (2, 4, 64)),
                (lambda: st.matmul_all_to_all(x, w, group=group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.matmul_all_to_all(x, w, scale, group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.all_to_all_matmul(x, w, group=group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.all_to_all_matmul(x, w, scale, group), {"a": x, "b": w}, (2, 4, 32)),
                (lambda: st.embedding_all_to_all(bags, experts[0], group, mode="mean"),
                 {"ids": bags.flatten(1), "w": experts[0]}, (8, 3, 64)),
                (lambda: st.embedding_all_to_all(wide_bags, experts[0], group),
                 {"ids": wide_bags.flatten(1), "w": experts[0]}, (8, 3, 64)),
                (lambda: st.moe(x, wide, own, *experts, group), dict(zip(
                    ("x", "ids", "weights", "wg", "wu", "wd"), (x, wide, own, *experts))), (2, 4, 64))):
            call()
            made = call()
            (first, _, before, _), (second, rows, given, stream) = self.enqueued
            self.assertEqual((first, second, rows, stream), ("long", "again", 8, 77))
            self.assertEqual(set(given), set(before))
            for name, tensor in inputs.items():
                self.assertEqual(given[name], (tensor.data_ptr(), tensor.shape[-1]))
            made = made if isinstance(made, tuple) else (made,)
            self.assertEqual([tuple(one.shape) for one in made], [shape] * len(made))
            outputs = sorted(address for name, (address, _) in given.items() if name not in inputs)
            self.assertEqual(outputs, sorted(one.data_ptr() for one in made))
            self.enqueued.clear()
        self.assertEqual(sum(st.report().served.values()), 38)

    def test_routers_with_what_they_choose(self):
        """Three results of types of their own, with a bias and without, and where the caller says."""
        x, router, bias = self.x, torch.zeros(3, 64).bfloat16(), torch.zeros(3)
        experts = [torch.zeros(3, *shape).bfloat16() for shape in ((16, 64), (16, 64), (64, 16))]
        out = torch.empty_like(x), torch.empty(2, 4, 2).int(), torch.empty(2, 4, 2)
        names, kinds = ("x", "wr", "wg", "wu", "wd", "br"), [torch.bfloat16, torch.int32, torch.float32]
        for more in ({}, {"scores": "sigmoid", "bias": bias, "scale": 2.5}, {"out": out}):
            for _ in range(2):
                made = st.moe_with_router(x, router, *experts, 2, self.group, **more)
            given = self.enqueued[-1][2]
            # What is written where the caller says has come before: without it.
            self.assertEqual(self.ways(), ["again" if "out" in more else "long", "again"])
            for name, one in zip(names, (x, router, *experts, more.get("bias"))):
                self.assertEqual(given.get(name), one if one is None else (one.data_ptr(), one.shape[-1]))
            self.assertEqual([given[name][0] for name in ("y", "ids", "weights")], [one.data_ptr() for one in made])
            self.assertEqual([one.dtype for one in made], kinds)
            self.assertEqual([tuple(one.shape) for one in made], [(2, 4, 64), (2, 4, 2), (2, 4, 2)])
            self.assertEqual("out" in more, made[0] is out[0])
        for _ in range(2):
            st.moe_with_router(x, router, *experts, 2, self.group, rows=8)
        self.assertEqual(self.ways(), ["long", "again"])

    def test_tokens_that_ranks_do_not_divide(self):
        """What comes again has the same ones of all ranks: others are another call."""
        x, ids, weights = torch.zeros(8, 64).bfloat16(), torch.zeros(8, 2).int(), torch.zeros(8, 2)
        experts = [torch.zeros(3, *shape).bfloat16() for shape in ((16, 64), (16, 64), (64, 16))]
        for rows, ways in ((8, ["long", "again"]), (None, ["long", "again"])):
            for _ in range(2):
                st.moe(x, ids, weights, *experts, self.group, rows=rows)
            self.assertEqual(self.ways(), ways)
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "x has 8 tokens; of rows=7 rank 0 of 1 has 7"):
                st.moe(x, ids, weights, *experts, self.group, rows=7)
        self.assertFalse(self.enqueued)

    def test_the_dispatchers_operators(self):
        """Which compiled code, gradients and operators in parts call."""
        x, w, name = self.x, self.w, self.group.name
        with mock.patch.object(_again, "again", lambda *given: None):
            function = torch.compile(lambda x, w: st.matmul_all_reduce(x, w, group=name) * 2, backend="aot_eager")
            for _ in range(3):
                function(x, w)
            self.assertEqual(self.ways(), ["long", "again", "again"])
            for _ in range(2):
                y, gathered = torch.ops.stretto.all_gather_matmul(x, [w], [], name)
                self.assertEqual((tuple(y.shape), gathered.numel()), ((2, 4, 32), 0))
            y, gathered = torch.ops.stretto.all_gather_matmul(x, [w], [], name, 0, None, True)
            self.assertEqual((tuple(y.shape), gathered.shape), ((2, 4, 32), x.shape))
            self.assertEqual(self.ways(), ["long", "again"])
            out = torch.empty(2, 4, 32).bfloat16()
            for _ in range(2):
                torch.ops.stretto.matmul_all_reduce.out(x, w, None, name, out=out)
            self.assertEqual(self.enqueued[-1][2]["out"][0], out.data_ptr())
            self.assertEqual(self.ways(), ["long", "again"])

    def test_graphs_whose_sizes_may_have_any_order(self):
        """Runs have the graph's rows, whichever size is named first; and later ones come again."""
        tensors = {"b": self.w, "a": self.x}
        for sizes in ({"m": 8, "n": 32, "k": 64}, {"k": 64, "n": 32, "m": 8}):
            for way in ("long", "again"):
                made = st.run_graph("gemm-a2a", tensors, self.group, sizes=sizes)
                self.assertEqual((list(made), tuple(made["out"].shape)), (["out"], (8, 32)))
                self.assertEqual(self.enqueued[-1][:2], (way, 8))
                self.assertEqual({name: at for name, (at, _) in self.enqueued[-1][2].items()},
                                 {name: one.data_ptr() for name, one in {**tensors, **made}.items()})
        made = torch.ops.stretto.run_graph([self.x, self.w], "gemm-a2a", "k=64 n=32 m=8", self.group.seat)
        self.assertEqual(([tuple(one.shape) for one in made], self.enqueued[-1][0]), ([(8, 32)], "again"))
        with self.assertRaisesRegex(ValueError, "0 inputs; gemm-a2a has a, b"):
            torch.ops.stretto.run_graph([], "gemm-a2a", "k=64 n=32 m=8", self.group.seat)

    def test_graphs_with_results_of_several_types(self):
        """And a stack of matrices, whose rows are those of all."""
        tensors = dict(zip(("x", "wr", "wg", "wu", "wd"), (torch.zeros(*shape).bfloat16() for shape in (
            (2, 2, 64), (3, 64), (3, 16, 64), (3, 16, 64), (3, 64, 16)))))
        for way in ("long", "again"):
            made = st.run_graph(ROUTER, tensors, self.group, t=4, h=64, f=16, experts=3, k=2)
            self.assertEqual({name: (one.dtype, tuple(one.shape)) for name, one in made.items()}, {
                "y": (torch.bfloat16, (4, 64)), "ids": (torch.int32, (4, 2)), "weights": (torch.float32, (4, 2))})
            self.assertEqual(self.ways(), [way])
            self.assertEqual(len({one.data_ptr() for one in made.values()}), 3)

    def test_a_rank_adds_its_part_of_a_bias(self):
        bias = normal(1, 100)
        for rank, part in enumerate((slice(0, 40), slice(40, 80), slice(80, 100))):
            record = _records.Record("matmul_all_to_all", types.SimpleNamespace(
                seat="three", process_group=None, rank=rank, ranks=3), 0)
            record._call = lambda at, tensors, outs, stream: (torch.zeros(4, len(bias[part])).bfloat16(),)
            made, = record.run((self.x, self.w, bias))
            self.assertTrue(torch.equal(made, bias[part].expand(4, -1)))

    def test_gradients_come_again(self):
        """Though they say how many rows there are, which others than even ones need."""
        x, w, group = self.x.clone().requires_grad_(), self.w, self.group
        square = torch.zeros(64, 64).bfloat16()
        for call in (lambda: st.matmul_reduce_scatter(x, w, group=group),
                     lambda: st.matmul_all_to_all(x, w, group=group),
                     lambda: st.all_to_all_matmul(x, square, group=group)):
            for _ in range(2):
                y = call()
                y.backward(torch.zeros_like(y))
            self.assertEqual(self.ways()[2:], ["again"] * 2)
        with self.assertRaisesRegex(ValueError, "of rows=3 rank 0 of 1 has 3"):
            torch.ops.stretto.all_gather_matmul(self.x, [w], [], group.name, 0, 3)

    def test_a_fork_knows_no_calls(self):
        for _ in range(2):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        child = os.fork()
        if child == 0:
            try:
                st.matmul_all_reduce(self.x, self.w, group=self.group)
            except RuntimeError as error:
                os._exit("was forked" in str(error))
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 1)

    def test_other_addresses_shapes_and_groups(self):
        other = self.x.clone()
        for x in (self.x, other, self.x[:1], self.x[:1], self.x):
            st.matmul_all_reduce(x, self.w, group=self.group)
        self.assertEqual(self.enqueued[1][2]["a"][0], other.data_ptr())
        self.assertEqual(self.ways(), ["long", "again", "long", "again", "again"])
        with st.Threads(1, timeout_s=60) as threads:
            st.matmul_all_reduce(self.x, self.w, group=threads.groups[0])
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.assertEqual(self.ways(), ["long", "again"])

    def test_what_goes_the_long_way(self):
        x, w = self.x, self.w
        crooked = torch.zeros(8 * 64 + 1).bfloat16()[1:].view(2, 4, 64)
        gaps = torch.zeros(2, 4, 128).bfloat16()[..., :64]
        call = lambda x=x, w=w, **more: st.matmul_all_reduce(x, w, group=self.group, **more)  # noqa: E731
        call()
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        call(x=crooked)
        call(x=gaps)
        call(out=torch.empty(2 * 4 * 32 + 1).bfloat16()[1:].view(2, 4, 32))
        call(x=torch.zeros(2, 4, 64).bfloat16().as_subclass(Other))
        self.assertEqual(self.ways(), ["long"] * 4)
        bad = [{"w": w.half()}, {"x": list(x)}, {"x": x.half()}]
        if self.way is _repeats.Repeats:  # to Python, CPU and meta tensors have the same number of a device
            bad += [{"w": w.to("meta")}, {"x": x.to("meta")}]
        for one in bad:
            with self.assertRaises((AttributeError, RuntimeError, TypeError, ValueError)):
                call(**one)
        self.assertEqual(self.ways(), [])
        call(w=torch.zeros(32, 128).bfloat16()[:, ::2])
        self.assertEqual(self.ways(), ["long"])
        with mock.patch.object(_records.Record, "run", lambda *given: self.fail("the dispatcher is asked first")):
            with mock.patch.object(torch.ops.stretto, "matmul_all_reduce") as op:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    call()
                with FlopCounterMode(display=False):
                    call()
        self.assertEqual(op.call_count, 2)
        pieces = torch.zeros(64, 64).bfloat16().split(32)
        for weights in (pieces, pieces[::-1], [pieces[0], pieces[1].clone()], pieces):
            st.all_gather_matmul(x, list(weights), group=self.group)
        self.assertEqual(self.ways(), ["long"] * 3 + ["again"])
        calls = _records.num_calls()
        for _ in range(2):  # nothing is learnt twice
            call(out=torch.empty(2 * 4 * 32 + 1).bfloat16()[1:].view(2, 4, 32))
        self.assertEqual(_records.num_calls(), calls)
        self.assertEqual(self.ways(), ["long"] * 2)
        for _ in range(2):  # served, and not learnt
            call(out=torch.empty(2, 4, 32).bfloat16().as_subclass(Other))
            many = list(torch.zeros(34 * 32, 64).bfloat16().split(32))
            st.all_gather_matmul(x, many, group=self.group)
        self.assertEqual(_records.num_calls(), calls)
        self.assertEqual(self.ways(), ["long"] * 4)
        with torch.no_grad():
            call(w=torch.nn.Parameter(w.clone()))
        self.assertEqual(self.ways(), ["again"])
        self.assertIs(type(next(iter(_records._records.values()))._way), self.way)

    def test_tangents(self):
        """A call that came before has none, so that one with a tangent must not be taken for it."""
        scale, residual = torch.ones(32).bfloat16(), torch.zeros(2, 4, 32).bfloat16()
        ids, weights = torch.zeros(2, 4, 2).int(), torch.zeros(2, 4, 2)
        experts = [torch.zeros(3, *shape).bfloat16() for shape in ((16, 64), (16, 64), (64, 16))]
        for call in (lambda x: st.all_gather_matmul(x, self.w, group=self.group),
                     lambda x: st.all_gather_matmul(x, [self.w, self.w], group=self.group, dim=1),
                     lambda x: st.matmul_all_reduce(x, self.w, group=self.group),
                     lambda x: st.matmul_reduce_scatter(x, self.w, group=self.group),
                     lambda x: st.matmul_all_reduce_add_rms_norm(x, self.w, residual, scale, group=self.group),
                     lambda x: st.mlp(x, [self.w, self.w], self.w.t(), self.group),
                     lambda x: st.moe(x, ids, weights, *experts, self.group),
                     lambda x: st.matmul_all_to_all(x, self.w, group=self.group),
                     lambda x: st.all_to_all_matmul(x, self.w, group=self.group),
                     lambda x: st.embedding_all_to_all(ids, x.transpose(0, 1), self.group),
                     lambda x: st.column_matmul(x, [self.w, self.w], group=self.group)):
            call(self.x)
            call(self.x)
            self.enqueued.clear()
            with forward_ad.dual_level():
                with self.assertRaisesRegex(ValueError, "^[a-z_]+: a tensor has a tangent, .*by backward"):
                    call(forward_ad.make_dual(self.x, torch.ones_like(self.x)))
                self.assertEqual(self.ways(), [])
                call(self.x)
            with self.assertRaisesRegex(ValueError, "a tensor has a tangent"):
                torch.func.jvp(call, (self.x,), (self.x,))
            self.enqueued.clear()
        with forward_ad.dual_level():
            x = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            made = st.column_matmul(x, self.w, group=self.group)  # PyTorch's product
            self.assertIsNotNone(forward_ad.unpack_dual(made).tangent)

    def test_captures(self):
        """Hold a call that came before, but where a graph holds several runs or none."""
        call = lambda: st.matmul_all_reduce(self.x, self.w, group=self.group)  # noqa: E731
        call()
        self.is_capturing = True
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        _records.forget()
        self.is_capturing, Operation.made[0].runs = False, 2
        call()
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        self.is_capturing = True
        call()
        self.assertEqual(self.ways(), ["long"])

    def test_results_where_the_caller_says(self):
        x, w, out = self.x, self.w, torch.empty(2, 4, 32).bfloat16()
        for op in (st.matmul_all_reduce, st.matmul_reduce_scatter, st.all_gather_matmul):
            for other in (out, torch.empty_like(out)):
                self.assertIs(op(x, w, group=self.group, out=other), other)
                self.assertEqual(self.enqueued[-1][2]["out"][0], other.data_ptr())
            self.assertEqual(self.ways(), ["long", "again"])
            for bad, message in ((out[:1], "is what comes"), (out.float(), "out is torch.float32"),
                                 (x.view(-1)[:256].view(2, 4, 32), "out overlaps x"),
                                 (w.view(-1)[-256:].view(2, 4, 32), "out overlaps weight"),
                                 (out.clone().requires_grad_(), "out has no gradient")):
                with self.assertRaisesRegex(ValueError, message):
                    op(x, w, group=self.group, out=bad)
            self.assertFalse(self.enqueued)
        norm = lambda *outs: st.matmul_all_reduce_add_rms_norm(  # noqa: E731
            x, w, torch.zeros_like(out), w[:, 0].contiguous(), 1e-6, self.group, out=outs)
        for _ in range(2):
            norm(out, other)
        self.assertEqual(self.ways(), ["long", "again"])
        with self.assertRaisesRegex(ValueError, r"out\[1\] overlaps out\[0\]"):
            norm(out, out)

    def test_autograd_knows_what_was_written(self):
        """What it has kept of a tensor that is written since has no gradient any more."""
        kept, scale = torch.zeros(2, 4, 32).bfloat16(), torch.ones(32).bfloat16().requires_grad_()
        for way in ("long", "again"):
            y = kept * scale
            with torch.no_grad():
                st.matmul_all_reduce(self.x, self.w, group=self.group, out=kept)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()
            self.assertEqual(self.ways(), [way])

    def test_runs_of_other_calls_are_not_learnt(self):
        """A call that cannot come again leaves nothing for one that PyTorch serves."""
        x, w, group = torch.zeros(1, 8, 64).bfloat16(), self.w, self.group
        st.all_gather_matmul(x, w, group=group, dim=1)
        self.assertEqual(self.ways(), ["long"])
        with mock.patch.object(_serve, "refusal", lambda call: "no reason"):
            st.all_gather_matmul(x[0], w, group=group)
        self.assertFalse(_records._records)

    def test_a_dimension_of_a_mesh(self):
        """Which is a new object at every call."""
        class Mesh(_again.DeviceMesh):
            ndim, mesh_dim_names = 1, ("tp",)

            def __init__(self):
                """Of nothing."""

            get_group = lambda _: self.group  # noqa: E731
        with mock.patch.object(_again, "DeviceMesh", Mesh), mock.patch.object(
                _again.groups, "group_name", lambda group: self.group.name):
            for _ in range(3):
                st.matmul_all_reduce(self.x, self.w, group=Mesh())
        self.assertEqual(self.ways(), ["long", "again", "again"])

    def test_gradients(self):
        """The forward pass comes again, too, and the gradients are the dispatcher's operator's."""
        for patched in (mock.patch.object(torch, "empty", torch.ones),  # nothing is written to results here
                        mock.patch.object(_records, "_empty_like", torch.ones_like)):
            patched.start()
            self.addCleanup(patched.stop)
        group = self.group
        parts, both = list(normal(1, 64, 64).split([16, 48])), normal(2, 64)
        x, w, up, down, scale, residual = (normal(3 + i, *shape) for i, shape in enumerate(
            ((2, 4, 64), (32, 64), (32, 64), (64, 32), (32,), (2, 4, 32))))
        bags = torch.tensor([[[0, 1], [2, 9], [-1, 3]]] * 8).int()
        for call, given in (
                (lambda *t: st.all_gather_matmul(*t, group=group), (x, w)),
                (lambda *t: st.all_gather_matmul(*t, group=group), (x, w, scale)),
                (lambda x, *t: torch.cat(st.all_gather_matmul(x, t[:2], t[2:], group), -1),
                 (x, *parts, *both.split([16, 48]))),
                (lambda *t: st.matmul_all_reduce(*t, group=group), (x, w)),
                (lambda *t: st.matmul_all_reduce(*t, group=group), (x, w, scale)),
                (lambda *t: st.matmul_reduce_scatter(*t, group=group), (x, w, scale)),
                (lambda *t: torch.cat(st.matmul_all_reduce_add_rms_norm(*t, 1e-5, group)), (x, w, residual, scale)),
                (lambda x, down, *t: st.mlp(x, t, down, group), (x, down, w, up)),
                (lambda x, down, w, up, *b: st.mlp(x, [w, up], down, group, up_bias=b),
                 (x, down, w, up, scale, -scale)),
                (lambda *t: st.matmul_all_to_all(*t, group=group), (x, w)),
                (lambda *t: st.all_to_all_matmul(*t, group=group), (x, w)),
                (lambda *t: st.matmul_all_to_all(*t, group=group), (x, w, scale)),
                (lambda *t: st.all_to_all_matmul(*t, group=group), (x, w, scale)),
                (lambda *t: torch.cat([one.flatten() for one in st.moe_with_router(*t, 2, group, rows=8)[::2]]),
                 (x, normal(20, 3, 64), normal(21, 3, 16, 64), normal(22, 3, 16, 64), normal(23, 3, 64, 16))),
                (lambda tables: st.embedding_all_to_all(bags, tables, group, mode="mean"), (normal(9, 3, 4, 8),))):
            leaves = [one.detach().requires_grad_() for one in given]
            with mock.patch.object(_again, "again", lambda *given: None):
                right = call(*leaves)
            self.assertEqual(self.ways(), ["long"])
            y = call(*leaves)
            self.assertEqual(self.ways(), ["again"])
            dy = normal(1, *y.shape)
            expected = torch.autograd.grad(right, leaves, dy)
            for got, one in zip(torch.autograd.grad(y, leaves, dy, retain_graph=True), expected):
                self.assertTrue(torch.equal(got, one))
            for leaf in leaves:  # of one tensor alone
                some = [one if one is leaf else one.detach() for one in leaves]
                got, = torch.autograd.grad(call(*some), leaf, dy)
                with mock.patch.object(_again, "again", lambda *given: None):
                    expected, = torch.autograd.grad(call(*some), leaf, dy)
                self.assertTrue(torch.equal(got, expected))
            self.enqueued.clear()

    def test_gradients_are_of_their_own_call(self):
        """And not of the first that went this way: of its shapes, or of its tensors where two of them were one."""
        for patched in (mock.patch.object(torch, "empty", torch.ones),
                        mock.patch.object(_records, "_empty_like", torch.ones_like)):
            patched.start()
            self.addCleanup(patched.stop)
        group = self.group
        x, w, up, down = (normal(20 + i, *shape) for i, shape in enumerate(((2, 4, 64), (32, 64), (32, 64), (64, 32))))
        small, large, bags = normal(24, 3, 4, 8), normal(25, 5, 6, 16), torch.arange(-1, 5).int().view(2, 1, 3)
        look_up = lambda tables: st.embedding_all_to_all(  # noqa: E731
            bags.expand(2, len(tables), 3).contiguous(), tables, group)
        mlp = lambda x, down, *ups: st.mlp(x, [*ups, ups[0]][:2], down, group)  # noqa: E731
        for call, given in ((look_up, (small,)), (look_up, (large,)), (look_up, (small.float().half(),)),
                            (mlp, (x, down, w)), (mlp, (x, down, w, up))):
            leaves = [one.detach().requires_grad_() for one in given]
            with mock.patch.object(_again, "again", lambda *given: None):
                right = call(*leaves)
            got, dy = call(*leaves), normal(26, *right.shape).to(right.dtype)
            self.assertEqual(self.ways()[-1], "again")
            for one, other in zip(torch.autograd.grad(got, leaves, dy), torch.autograd.grad(right, leaves, dy)):
                self.assertTrue(torch.equal(one, other))

    def test_copies_are_not_taken_for_what_was_given(self):
        for _ in range(2):  # dimension 1 is dealt, and rows are brought into another order
            st.all_gather_matmul(self.x, self.w, group=self.group, dim=1)
            st.matmul_all_reduce(torch.zeros(2, 4, 128).bfloat16()[..., :64], self.w, group=self.group)
        self.assertEqual(self.ways(), ["long"] * 4)
        self.assertFalse(_records._records)

    def test_failures(self):
        """The library refuses a call behind one that failed: what it says is raised."""
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.status = 3
        says = "status 3" if self.way is Checked else stretto._library.library().last_error().decode()
        with self.assertRaisesRegex(RuntimeError, says):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.status = 2
        with self.assertRaises(RuntimeError if self.way is Checked else ValueError):
            st.matmul_all_reduce(self.x, self.w, group=self.group)

    def test_groups_that_compare_every_call(self):
        with st.Threads(1, timeout_s=60, compare=True) as threads:
            for _ in range(3):
                st.matmul_all_reduce(self.x, self.w, group=threads.groups[0])
        self.assertEqual(self.ways(), ["long"] * 3)

    def test_checkpoints(self):
        """What was not kept is computed again, by a call that came before."""
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()

        def function(x, w):
            return st.matmul_all_reduce(torch.nn.functional.silu(st.all_gather_matmul(x, w, group=self.group)),
                                        w.t().contiguous(), group=self.group)
        function(x, w)
        self.ways()
        checkpoint(function, x, w, use_reentrant=False).sum().backward()
        self.assertEqual(self.ways()[:2], ["again"] * 2)
        self.assertEqual((x.grad.shape, w.grad.shape), (x.shape, w.shape))

    def test_a_library_without_them_is_older_than_the_package(self):
        with mock.patch.dict(_repeats.FUNCTIONS, of_tomorrow=(ctypes.c_int, [])), \
                self.assertRaisesRegex(stretto.LibraryNotFound, "has no stretto_repeats_of_tomorrow: it is older than "
                                       "this package; .*build it anew"):
            _repeats._functions.__wrapped__()

    def test_names_last_as_long_as_calls(self):
        """Also where the operation has forgotten them since."""
        for _ in range(2):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        Operation.made[0]._kept.clear()
        junk = [bytes([65 + i % 20]) * 2 for i in range(4096)]
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.assertEqual(set(self.enqueued[-1][2]), {"a", "b", "out"}, junk[0])

    def test_operations_that_are_closed(self):
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.group.engines["cpu"].close()
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.assertEqual(self.ways(), ["long"] * 2)
        self.assertEqual(len(Operation.made), 2)

    def test_arguments_are_laid_out_as_c_has_them(self):
        array = (CCallTensor * 2)(CCallTensor(b"a", 0, 0, 1, 2), CCallTensor(b"b", 0, 0, 3, 4))
        words = (ctypes.c_uint64 * (2 * WORDS)).from_buffer(array)
        words[WORDS + ADDRESS] = 9
        self.assertEqual((array[0].address, array[1].address, array[1].row_stride), (1, 9, 4))


class AgainInPython(Again):
    way = Checked


if __name__ == "__main__":
    unittest.main()
