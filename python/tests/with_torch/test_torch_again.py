"""Calls that come again: what the library is given for them."""

import types
import unittest
from unittest import mock

from ranks import normal  # first: without PyTorch it skips
from again import Calls
from test_torch_graphs import ROUTER

import torch

import stretto
import stretto.torch as st
from stretto.torch import _again, _records
from stretto.torch._checked import Checked


class Again(Calls):
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

    @unittest.skipUnless(hasattr(getattr(torch._C, "_dynamo", None), "guards"), "this PyTorch has no such function")
    def test_results_as_compiled_code_allocates_them(self):
        """On GPUs; where they come to lie elsewhere than the call's tensors, the call goes the long way."""
        make = torch._C._dynamo.guards._empty_strided_cpu
        with mock.patch.dict(_records._empty_strided, {"cpu": make}):
            self.test_routers_with_what_they_choose()
        _records.forget()
        with mock.patch.dict(_records._empty_strided, {"cpu": lambda *given: make(*given).to("meta")}):
            for _ in range(2):
                self.assertEqual(st.matmul_all_reduce(self.x, self.w, group=self.group).device.type, "cpu")
        self.assertEqual(self.ways(), ["long", "again" if self.way is Checked else "long"])

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
            self.assertEqual(self.ways(), ["long", "again", "long"])
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


class AgainInPython(Again):
    way = Checked


if __name__ == "__main__":
    unittest.main()
