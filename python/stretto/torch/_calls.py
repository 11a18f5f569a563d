"""Operators as calls of graphs: which graph, its sizes, and which tensor of a rank is which input."""

import dataclasses
import math
from typing import Any, Dict, Mapping, Tuple

import torch


@dataclasses.dataclass(frozen=True)
class Call:
    """One rank's part of one call. Matrices are row-major without gaps, rows of all leading dimensions.

    graph    the name of a shipped operator, or a graph's text (docs/graph-format.md)
    sizes    of the graph, global; the first are its rows
    inputs   by their names in the graph: what this rank has
    outputs  name -> (rows, columns) of what this rank gets
    refusal  why it cannot be served, on all ranks alike; empty: it may be
    said     the arguments that choose the graph, by their names
    types    of those outputs that have one of their own
    fill     where rows can be added that count for nothing: the inputs that have rows, as all outputs do then, and
             what added rows of each have
    multiple  its rows are one of this
    is_whole  every rank has all rows, of which each has own ones otherwise
    parts    of other operators, without tensors, that do the same where this one is not served, if Stretto has such
    """

    op: str
    graph: str
    sizes: Tuple[Tuple[str, int], ...]
    inputs: Dict[str, torch.Tensor]
    outputs: Dict[str, Tuple[int, int]]
    refusal: str = ""
    types: Mapping[str, torch.dtype] = dataclasses.field(default_factory=dict)
    fill: Mapping[str, float] = dataclasses.field(default_factory=dict)
    multiple: int = 1
    is_whole: bool = False
    parts: Tuple["Call", ...] = ()
    said: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def graph_name(self) -> str:
        """Says all that tells graphs of one operator apart."""
        return self.graph.split(maxsplit=2)[1] if "\n" in self.graph else self.graph

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.inputs.values())).dtype

    def type_of(self, output) -> torch.dtype:
        return self.types.get(output, self.dtype)

    @property
    def device(self) -> torch.device:
        return next(iter(self.inputs.values())).device

    @property
    def rows(self) -> int:
        """Of all ranks."""
        return self.sizes[0][1]

    def owners(self, ranks) -> int:
        """So many have rows of their own."""
        return 1 if self.is_whole else ranks

    def of_rows(self, many, **more) -> "Call":
        """The call of a tensor whose rows are these, and what else ranks have to say alike: rows of the same number are
        others where another dimension is dealt, or the others are not the same.
        """
        if many is not None and many.others:
            more = {**more, "dim": many.dim, "other dimensions": " x ".join(map(str, many.others))}
        return dataclasses.replace(self, said={**self.said, **more})

    def without_tensors(self, like=None) -> "Call":
        """What stands for calls that differ in rows and tensors: of the type and on the device of this call's, or of
        another's where this one has none.
        """
        first = next(iter((self.inputs or like.inputs).values()))
        return dataclasses.replace(self, inputs={"": first.new_empty(0)}, outputs={})

    def flops(self) -> float:
        """Of one rank, at least: bounds how long the others wait for an execution on the CPU."""
        return 2.0 * self.rows * sum(one.numel() for name, one in self.inputs.items() if name[0] in "bw")


GATHER_BIAS = """\
graph ag-gemm-bias m n k
input a [m, k] rows
input b [n, k] rows
input c [1, n] cols
p = gemm a b
out = bias p c
output out cols
"""

# The same, and all ranks' rows besides, which are gathered once for both.
KEPT = {is_biased: f"""\
graph ag-gemm{name} m n k
input a [m, k] rows
input b [n, k] rows
{product}
all = gather a
output out cols
output all whole
""" for is_biased, name, product in (
    (False, "-kept", "out = gemm a b"),
    (True, "-bias-kept", "input c [1, n] cols\np = gemm a b\nout = bias p c"))}

NORM = """\
graph gemm-ar-norm-{eps!r} m n k
input a [m, k] cols
input b [n, k] cols
input r [m, n] whole
input w [1, n] whole
p = gemm a b
s = add p r
out = norm s w eps={eps!r}
output out whole
output s whole
"""


# With tokens as `held` says, and weights of fp32 or of x's type.
MOE = {is_dealt: f"""\
graph {{name}} t h f experts k
input x [t, h] {{held}}
input ids [t, k] {{held}} {{ids}}
input weights [t, k] {{held}}{{weights}}
input wg [experts, f, h] {cut}
input wu [experts, f, h] {cut}
input wd [experts, h, f] {turned}
g = grouped x wg ids
u = grouped x wu ids
a = swiglu g u
d = grouped a wd ids
y = weigh d ids weights
output y {{held}}
""" for is_dealt, cut, turned in ((True, "experts", "experts"), (False, "rows", "cols"))}
# torch.dtype -> Stretto's name
TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
DTYPES = {torch.int32: "i32", torch.int64: "i64"}
FILL = {"x": 0, "ids": -1, "weights": 0}  # tokens of which nothing is chosen
ENDINGS = {torch.int32: "", torch.int64: "-i64"}  # of the names of graphs that ship, by their ids


def given(argument) -> str:
    return "None" if argument is None else "given"


def type_text(tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def as_ids(numbers):
    """Whole numbers in a type that graphs take, which has all of them: what is beyond its positive ones is below 0, and
    so no expert and no row either.
    """
    if numbers.dtype in DTYPES:
        return numbers
    return numbers.to(torch.int64 if numbers.dtype in (torch.uint32, torch.uint64) else torch.int32)


def gather_matmul(rows, a, b, bias, ranks, is_kept=False) -> Call:
    """a [rows/R, k], b [n/R, k], bias [n/R] or None -> out [rows, n/R]; where it `is_kept` all [rows, k] besides."""
    n, k = b.shape
    inputs = {"a": a, "b": b} if bias is None else {"a": a, "b": b, "c": bias.reshape(1, -1)}
    call = dataclasses.replace(_gather(rows, n, k, bias is not None, ranks), inputs=inputs, outputs={"out": (rows, n)},
                               said={"keep_gathered": is_kept, "bias": given(bias)})
    if not is_kept:
        return call
    return dataclasses.replace(call, graph=KEPT[bias is not None], outputs={**call.outputs, "all": (rows, k)})


def _gather(rows, n, k, is_biased, ranks) -> Call:
    """Without tensors; n is of one rank."""
    graph = GATHER_BIAS if is_biased else "ag-gemm"
    if ranks == 1 and not is_biased:  # one rank's rows are multiplied where they lie, and not brought together
        graph = "gemm-rs"
    return Call("all_gather_matmul", graph, (("m", rows), ("n", n * ranks), ("k", k)), {}, {}, multiple=ranks)


def matmul_scatter(a, b, ranks) -> Call:
    """a [m, k/R], b [n, k/R] -> out [m/R, n]."""
    (m, k), n = a.shape, b.shape[0]
    return Call("matmul_reduce_scatter", "gemm-rs", (("m", m), ("n", n), ("k", k * ranks)),
                {"a": a, "b": b}, {"out": (m // ranks, n)}, multiple=ranks)


def matmul_reduce(a, b, ranks) -> Call:
    """a [m, k/R], b [n, k/R] -> out [m, n] on every rank."""
    (m, k), n = a.shape, b.shape[0]
    return dataclasses.replace(_reduce(m, n, k * ranks), inputs={"a": a, "b": b}, outputs={"out": (m, n)})


def matmul_norm(a, b, residual, norm_weight, eps, ranks) -> Call:
    """a [m, k/R], b [n, k/R], residual [m, n], norm_weight [n] -> out, s [m, n] on every rank."""
    (m, k), n = a.shape, b.shape[0]
    graph = "gemm-ar-norm" if eps == 1e-6 else NORM.format(eps=eps)
    return Call("matmul_all_reduce_add_rms_norm", graph, (("m", m), ("n", n), ("k", k * ranks)),
                {"a": a, "b": b, "r": residual, "w": norm_weight.reshape(1, -1)},
                {"out": (m, n), "s": (m, n)}, parts=(_reduce(m, n, k * ranks),), said={"eps": eps})


def _reduce(rows, n, k) -> Call:
    """Without tensors."""
    return Call("matmul_all_reduce", "gemm-ar", (("m", rows), ("n", n), ("k", k)), {}, {})


def mlp(rows, x, ups, biases, down, activation, scattered, ranks) -> Call:
    """x [rows/R or rows, h], ups [f/R, h], biases [f/R], down [h, f/R] -> down [rows/R or rows, h]."""
    h, f = x.shape[1], ups[0].shape[0] * ranks
    held = "rows" if scattered else "whole"
    names = ["wg", "wu"][:len(ups)]
    inputs = {"x": x, **dict(zip(names, ups)), "wd": down}
    lines = [f"graph mlp-{activation}-{held}{'-bias' if biases else ''} m h f",
             f"input x [m, h] {held}"]
    lines += [f"input {name} [f, h] rows" for name in names] + ["input wd [h, f] cols"]
    made = []
    for index, name in enumerate(names):
        lines.append(f"p{index} = gemm x {name}")
        made.append(f"p{index}")
        if biases:
            inputs[f"c{index}"] = biases[index].contiguous().reshape(1, -1)
            lines.insert(2, f"input c{index} [1, f] cols")
            lines.append(f"q{index} = bias p{index} c{index}")
            made[-1] = f"q{index}"
    lines += [f"up = {activation} {' '.join(made)}", "down = gemm up wd", f"output down {held}", ""]
    graph = "\n".join(lines)
    if activation == "swiglu" and not biases:
        graph = "mlp" if scattered else "mlp-ar"
    parts = _reduce(rows, h, f),
    if scattered:
        parts = (_gather(rows, sum(len(up) for up in ups), h, bool(biases), ranks),
                 Call("matmul_reduce_scatter", "gemm-rs", (("m", rows), ("n", h), ("k", f)), {}, {}, multiple=ranks))
    return Call("mlp", graph, (("m", rows), ("h", h), ("f", f)), inputs,
                {"down": (rows // ranks if scattered else rows, h)}, multiple=ranks if scattered else 1, parts=parts,
                said={"activation": activation, "sequence_parallel": scattered, "up_bias": given(biases or None)})


def moe(rows, x, ids, weights, gate, up, down, experts, is_dealt, ranks, are_rows_dealt=True) -> Call:
    """Of all ranks' rows x [t/R, h], ids and weights [t/R, k], gate and up [E, f, h], down [E, h, f] -> y [t/R, h]; or
    of t rows on every rank, where they are not dealt.

    All `experts` are dealt to the ranks, or every expert's f.
    """
    name = ("moe-ep" if is_dealt else "moe-tp") + ENDINGS[ids.dtype]
    _, f, h = gate.shape
    sizes = (("t", rows), ("h", h), ("f", f if is_dealt else f * ranks),
             ("experts", experts), ("k", ids.shape[1]))
    has_own = weights.dtype is x.dtype and weights.dtype is not torch.float32
    graph = name
    if has_own or not are_rows_dealt:
        graph = MOE[is_dealt].format(name=f"{name}{'' if are_rows_dealt else '-whole'}{'-own-weights' * has_own}",
                                     held="rows" if are_rows_dealt else "whole", ids=DTYPES[ids.dtype],
                                     weights="" if has_own else " fp32")
    return Call("moe", graph, sizes,
                {"x": x, "ids": ids, "weights": weights, "wg": gate, "wu": up, "wd": down}, {"y": tuple(x.shape)},
                fill=FILL, is_whole=not are_rows_dealt,
                said={"expert_parallel": is_dealt, "sequence_parallel": are_rows_dealt, "ids": type_text(ids),
                      "weights": type_text(weights)})


# A layer whose router chooses, and hands over what it chose.
ROUTED = """\
graph {name} t h f experts k groups best
input x [t, h] rows
input wr [experts, h] whole
{more_inputs}input wg [experts, f, h] {cut}
input wu [experts, f, h] {cut}
input wd [experts, h, f] {turned}
s = gemm x wr
ids = {choice} k=k groups=groups best=best
weights = {scores}_gate s ids normalise={normalise} scale={scale!r}
g = grouped x wg ids
u = grouped x wu ids
a = swiglu g u
d = grouped a wd ids
y = weigh d ids weights
output y rows
output ids rows
output weights rows
"""


def moe_with_router(rows, x, router, gate, up, down, bias, rule, is_dealt, ranks) -> Call:
    """Of all ranks' rows x [t/R, h], router [experts, h], experts as of moe(), bias [experts] or None
    -> y [t/R, h], ids and weights [t/R, k].
    """
    f, h = gate.shape[1:]
    sizes = (("t", rows), ("h", h), ("f", f if is_dealt else f * ranks), ("experts", router.shape[0]), ("k", rule.k),
             ("groups", rule.groups), ("best", rule.best))
    inputs = {"x": x, "wr": router, "wg": gate, "wu": up, "wd": down}
    if bias is not None:
        inputs["br"] = bias.to(torch.float32).contiguous().reshape(1, -1)
    is_biased, cut, turned = bias is not None, *(("experts", "experts") if is_dealt else ("rows", "cols"))
    name = "-".join(["moe-ep" if is_dealt else "moe-tp", rule.scores, *["biased"] * is_biased,
                     *["of-all"] * (not rule.normalise), f"{float(rule.scale)!r}"])
    graph = ROUTED.format(name=name, more_inputs="input br [1, experts] whole fp32\n" if is_biased else "",
                          cut=cut, turned=turned, choice="biased_top_k s br" if is_biased else "top_k s",
                          scores=rule.scores, normalise=int(rule.normalise), scale=float(rule.scale))
    choices = x.shape[0], rule.k
    experts = Call("moe", "moe-ep" if is_dealt else "moe-tp", sizes[:5], {}, {}, fill=FILL)
    return Call("moe_with_router", graph, sizes, inputs, {"y": tuple(x.shape), "ids": choices, "weights": choices},
                types={"ids": torch.int32, "weights": torch.float32},
                parts=(experts,), fill={"x": math.nan},  # a token that chooses nothing, so that it loads no expert
                said={"expert_parallel": is_dealt, "scores": rule.scores, "normalise": rule.normalise,
                      "scale": float(rule.scale), "bias": given(bias)})


def matmul_exchange(rows, a, b, columns, refusal="") -> Call:
    """a [rows/R, k], b [n, k] -> out [rows, this rank's columns of n]."""
    n, k = b.shape
    return Call("matmul_all_to_all", "gemm-a2a", (("m", rows), ("n", n), ("k", k)), {"a": a, "b": b},
                {"out": (rows, columns)}, refusal, multiple=rows // len(a))


def exchange_matmul(a, b, ranks, refusal="") -> Call:
    """a [m, this rank's columns of k], b [n, k] -> out [m/R, n]."""
    m, (n, k) = a.shape[0], b.shape
    return Call("all_to_all_matmul", "a2a-gemm", (("m", m), ("n", n), ("k", k)), {"a": a, "b": b},
                {"out": (m // ranks, n)}, refusal, multiple=ranks)


def look_up(graph, ids, tables, total, pool, own_bags) -> Call:
    """ids [bags, own tables * pool], tables [own tables, s, d] -> out [own bags, total * d]."""
    _, rows, columns = tables.shape
    sizes = (("bags", ids.shape[0]), ("tables", total), ("rows", rows), ("dim", columns), ("pool", pool))
    return Call("embedding_all_to_all", graph + ENDINGS[ids.dtype], sizes, {"w": tables, "ids": ids},
                {"out": (own_bags, total * columns)},
                said={"mode": "mean" if graph.endswith("-mean") else "sum", "ids": type_text(ids)})
