"""Graphs of the caller's own on the emulator, and what is refused of them."""

import pathlib
import tempfile
import unittest

from ranks import Numbers, block, normal, run

import torch
import torch.nn.functional as F

import gpu_checks_exchanges

import stretto.torch as st
from stretto.torch import _graphs

# A remark before all else.
OWN = f"# tokens whole from the first product to the second\n{gpu_checks_exchanges.OWN}"
ROUTER = """\
graph router t h f experts k
input x [t, h] rows
input wr [experts, h] whole
input wg [experts, f, h] experts
input wu [experts, f, h] experts
input wd [experts, h, f] experts
s = gemm x wr
ids = top_k s k=k
weights = softmax_gate s ids
g = grouped x wg ids
u = grouped x wu ids
a = swiglu g u
d = grouped a wd ids
y = weigh d ids weights
output y rows
output ids rows
output weights rows
"""
M, H, WIDTH, RANKS = 14, 16, 48, 3


class Graphs(Numbers):
    def setUp(self):
        self.tokens, self.first = normal(1, M, H), normal(2, WIDTH, H) / 4
        self.second, self.scale = normal(3, H, WIDTH) / 4, normal(4, 1, H)

    def part(self, rank, ranks=RANKS):
        own = block(WIDTH, ranks, rank)
        return {"tokens": self.tokens[block(M, ranks, rank)], "first": self.first[own],
                "second": self.second[:, own], "scale": self.scale}

    def right(self):
        q = F.silu(self.tokens.double() @ self.first.double().t()) @ self.second.double().t()
        return q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-5) * self.scale.double()

    def test_two_products_and_a_norm(self):
        found = run(RANKS, lambda g: st.run_graph(OWN, self.part(g.rank), g, m=M, h=H, f=WIDTH))
        self.assertEqual(st.report().served, {"run_graph": RANKS})
        self.assertEqual([list(one) for one in found], [["normed"]] * RANKS)
        self.assert_close(torch.cat([one["normed"] for one in found]), self.right())

    def test_ranks_wait_for_one_that_executes_it(self):
        """As long as it may take: what its tensors are called says nothing of what is multiplied."""
        call = _graphs.Call("run_graph", OWN, (("h", H), ("f", WIDTH), ("m", M)), self.part(0, 1), {})
        self.assertGreaterEqual(call.flops(), 2 * 2 * M * H * WIDTH)

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "own.graph"
            path.write_text(OWN)
            found = run(2, lambda g: st.run_graph(path, self.part(g.rank, 2), g, sizes={"m": M, "h": H, "f": WIDTH}))
        self.assert_close(torch.cat([one["normed"] for one in found]), self.right())

    def test_shipped_ones_of_several_types(self):
        """Ids and weights have types of their own; what leads the columns counts as rows."""
        ids = torch.tensor([[0, 1], [2, 3], [3, 3], [1, -1]], dtype=torch.int32)
        x, weights = normal(1, 4, H), torch.ones(4, 2)
        gate, up, down = normal(2, 4, 16, H) / 4, normal(3, 4, 16, H) / 4, normal(4, 4, H, 16) / 4

        def call(group):
            rows, own = slice(2 * group.rank, 2 * group.rank + 2), slice(2 * group.rank, 2 * group.rank + 2)
            tensors = {"x": x[rows], "ids": ids[rows], "weights": weights[rows], "wg": gate[own], "wu": up[own],
                       "wd": down[own]}
            made = st.run_graph("moe-ep", tensors, group, t=4, h=H, f=16, experts=4, k=2)["y"]
            same = st.moe(*tensors.values(), group, expert_parallel=True)
            self.assertTrue(torch.equal(made, same))
        run(2, call)

    def test_outputs_of_types_of_their_own(self):
        """Ids and weights that a router makes, beside what experts make of them."""
        x, router = normal(1, 5, H), normal(5, 4, H)
        gate, up, down = normal(2, 4, 16, H) / 4, normal(3, 4, 16, H) / 4, normal(4, 4, H, 16) / 4

        def call(group):
            rows, own = slice(3 * group.rank, min(3 * group.rank + 3, 5)), slice(2 * group.rank, 2 * group.rank + 2)
            tensors = {"x": x[rows], "wr": router, "wg": gate[own], "wu": up[own], "wd": down[own]}
            return st.run_graph(ROUTER, tensors, group, t=5, h=H, f=16, experts=4, k=2)
        found = {name: torch.cat([one[name] for one in both]) for both in [run(2, call)] for name in both[0]}
        scores = x.float() @ router.float().t()
        weights, ids = scores.topk(2)
        self.assertEqual(found["ids"].dtype, torch.int32)
        self.assertTrue(torch.equal(found["ids"].long(), ids))
        self.assert_close(found["weights"], weights.softmax(-1), torch.float32)
        one = run(1, lambda g: st.run_graph("moe-ep-i64", {
            "x": x, "ids": ids, "weights": found["weights"], "wg": gate, "wu": up, "wd": down}, g,
            t=5, h=H, f=16, experts=4, k=2)["y"])
        self.assert_close(found["y"], one[0])

    def test_what_is_refused(self):
        sizes = {"m": M, "h": H, "f": WIDTH}
        for change, more, message in (
                ({"tokens": None}, {}, "own takes tokens, first, second, scale; tokens is missing"),
                ({"down": self.scale}, {}, "own takes .*; down is unknown"),
                ({"first": self.first}, {}, r"first is \[48, 16\]; \[16, 16\] is what rank . of 3 has of it \(rows\)"),
                ({"scale": self.scale.float()}, {}, "scale is torch.float32; torch.bfloat16 was expected"),
                ({"tokens": normal(1, 5, H).double()}, {}, "inputs are torch.float64; one of torch.bfloat16"),
                ({"scale": self.scale.clone().requires_grad_()}, {}, "graphs have no gradients: call it under"),
                ({}, {"f": 7}, "f"), ({}, {"g": 7}, "g")):
            def call(group):
                given = {**self.part(group.rank), **change}
                given = {name: one for name, one in given.items() if one is not None}
                st.run_graph(OWN, given, group, **{**sizes, **more})
            with self.assertRaisesRegex(ValueError, message):
                run(RANKS, call)
        with self.assertRaisesRegex(ValueError, "graph:2:5: unknown kind of stage 'gem'"):
            run(1, lambda g: st.run_graph("graph own m\ny = gem x\n", {}, g, m=4))

    def test_two_graphs_of_one_name_are_not_one_call(self):
        other = OWN.replace("silu", "gelu")
        with self.assertRaisesRegex(ValueError, "ranks disagree at run_graph: graph is own .* on rank 0"):
            run(2, lambda g: st.run_graph(OWN if g.rank == 0 else other, self.part(g.rank, 2), g, m=M, h=H, f=WIDTH))

    def test_what_is_not_served_says_why(self):
        text = "graph own m n k\ninput a [m, k] rows\ninput b [n, k] rows\ny = gemm a b\noutput y cols\n"
        with self.assertRaisesRegex(ValueError, "run_graph: own is not served for group .*mover=epilogue pushes"):
            run(2, lambda g: st.run_graph(text, {"a": normal(1, 4, 8), "b": normal(2, 8, 8)}, g, m=8, n=16, k=8),
                schedule="tiles,mover=epilogue")

    def test_pytorchs_checks(self):
        part = list(self.part(0, 1).values())
        with st.Threads(1, timeout_s=60) as threads:
            name = threads.groups[0].name
            torch.library.opcheck(torch.ops.stretto.run_graph.default, (part, OWN, f"m={M} h={H} f={WIDTH}", name))

            def function(*given):
                tensors = dict(zip(("tokens", "first", "second", "scale"), given))
                return st.run_graph(OWN, tensors, name, m=M, h=H, f=WIDTH)["normed"] * 2
            torch._dynamo.reset()
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
            self.assertTrue(torch.equal(compiled(*part), function(*part)))

            def of_any(tokens):
                tensors = dict(zip(("tokens", "first", "second", "scale"), (tokens, *part[1:])))
                return st.run_graph(OWN, tensors, name, sizes={"h": H, "f": WIDTH}, m=tokens.shape[0])["normed"] * 2
            for dynamic in (None, True):
                torch._dynamo.reset()
                compiled = torch.compile(of_any, fullgraph=True, dynamic=dynamic, backend="aot_eager")
                for tokens in (part[0], part[0][:6], part[0][:9]):
                    self.assertTrue(torch.equal(compiled(tokens), of_any(tokens)))


if __name__ == "__main__":
    unittest.main()
