#!/usr/bin/env python3
"""The grouped kernel beside torch._grouped_mm and DeepGEMM's grouped kernels, on the same tensors, in turns.

    bench/experts/grouped_contest.py --out results.json [--models qwen30b,dsv3] [--tokens 16,1024] [--seconds 200]

Products of MoE layers with random routing: gate and up, [2F, H], and down, [H, F]. Libraries get rows sorted
beforehand; DeepGEMM takes part where its package (deep_gemm) is found, in the form that is made for so many rows and,
up to 1024 tokens, in the masked one. A figure is the median over rounds of the time of a launch in a graph behind
another launch of it, with the least and the most. Results are compared with torch's.
"""

import argparse
import concurrent.futures
import gc
import importlib.metadata
import json
import math
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from bench.experts.grouped_kernels import Kernels, Product  # noqa: E402
from bench.experts.grouped_tiles import filled, fitted  # noqa: E402
from bench.shapes.moe_layers import MODELS, bias_of  # noqa: E402

try:
    import deep_gemm
except ImportError:
    deep_gemm = None

TOKENS = (16, 64, 256, 1024, 2048, 4096, 8192, 16384)
MOST_WARMING = 6  # at a time, for their memory
MOST_LAUNCHES, GRAPH_US, ROUNDS, WORST_ERROR = 10, 8000, 9, 6e-3


def random_ids(tokens, experts, top_k):
    scores = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(tokens + experts))
    return scores.topk(top_k, dim=1).indices


def ids_of(tokens, experts, top_k, routing):
    """Choices [tokens, top k], on the CPU; a token's are different."""
    if routing == "uniform":
        return random_ids(tokens, experts, top_k)
    noise = torch.rand(tokens, experts, generator=torch.Generator().manual_seed(tokens + experts))
    gumbel = -torch.log(-torch.log(noise.clamp(1e-30, 1 - 1e-7)))
    return (gumbel + torch.tensor(bias_of(routing, experts))).topk(top_k, dim=1).indices


class Routing:
    """Of choices [tokens, top k] of so many experts; where they are, on the CPU and on the GPU."""

    def __init__(self, ids, experts):
        top_k, choices = ids.shape[1], ids.flatten()
        order = torch.argsort(choices, stable=True)
        self.rows = len(choices)
        self.counts_here = torch.bincount(choices, minlength=experts)
        self.counts = self.counts_here.int().cuda()
        self.ends = self.counts_here.cumsum(0).int().cuda()
        self.sources, self.targets = (order // top_k).int().cuda(), order.int().cuda()
        self.expert_of_row = choices[order].cuda()
        self.active = int((self.counts_here > 0).sum())

    def padding(self, unit):
        """How many times as many rows are multiplied, where an expert's are a multiple of `unit`."""
        return float(((self.counts_here + unit - 1) // unit * unit).sum() / self.rows)


def error_of(found, expected):
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def deep_gemm_forms(routing, tokens, rows, weights, n):
    """By form: a call, and what gives its rows in sorted order."""
    experts, k, counts = weights.shape[0], rows.shape[1], routing.counts_here
    forms = {"contiguous": 64 if routing.rows < 64 * experts else 128}
    if tokens <= 1024:
        forms["masked"] = 64 if counts.max() <= 64 else 128
    for form, align in forms.items():
        space = (counts + align - 1) // align * align
        if form == "masked":
            space = torch.full_like(counts, int(space.max()))
        begin = (space.cumsum(0) - space).cuda()[routing.expert_of_row]
        first = (routing.ends - routing.counts)[routing.expert_of_row]
        place = begin + torch.arange(routing.rows, device="cuda") - first
        a = torch.zeros(int(space.sum()), k, device="cuda", dtype=torch.bfloat16)
        a[place] = rows
        c = torch.zeros(len(a), n, device="cuda", dtype=torch.bfloat16)
        if form == "masked":
            def call(a=a.view(experts, -1, k), c=c.view(experts, -1, n)):
                deep_gemm.m_grouped_bf16_gemm_nt_masked(a, weights, c, routing.counts, max(1, routing.rows // experts))
        else:
            layout = torch.full((len(a),), -1, device="cuda", dtype=torch.int32)
            layout[place] = routing.expert_of_row.int()

            def call(a=a, c=c, layout=layout, align=align):
                deep_gemm.set_mk_alignment_for_contiguous_layout(align)
                deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, weights, c, layout)
        yield f"deepgemm {form}", call, lambda c=c, place=place: c[place]


class Item:
    """A graph of some launches."""

    def __init__(self, call):
        call()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        self.count = max(2, min(MOST_LAUNCHES, int(GRAPH_US / max(1.0, start.elapsed_time(end) * 1000))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.count):
                call()

    def us(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.graph.replay()
        start.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1000 / self.count


def contest(calls):
    """In another order every round: behind a kernel that only copies, the chip is cool and the next one faster."""
    items = {name: Item(call) for name, call in calls.items()}
    times = {name: [] for name in items}
    for number in range(ROUNDS):
        for name in random.Random(number).sample(list(items), len(items)):
            times[name].append(items[name].us())
    return {name: [round(sorted(us)[len(us) // 2], 2), round(min(us), 2), round(max(us), 2)]
            for name, us in times.items()}


def tiles_of(routing, product, n, k):
    """What the kernel chooses, and with what it can do besides."""
    tile, gathering = (fitted(routing.rows, routing.active, n, k, gathers=gathers) for gathers in (False, True))
    if product == "down":
        return [tile, filled(tile._replace(scatters=True))]
    gathering = gathering._replace(gathers=True)
    return [tile, filled(tile._replace(follower="swiglu")), filled(gathering),
            filled(gathering._replace(follower="swiglu"))]


def all_tiles(models, counts):
    found = []
    for model in models:
        hidden, inner, experts, top_k = MODELS[model]
        for count in counts:
            routing = Routing(random_ids(count, experts, top_k), experts)
            found += tiles_of(routing, "up", 2 * inner, hidden) + tiles_of(routing, "down", hidden, inner)
    return list(dict.fromkeys(found))


def checked_call(kernels, sort, routing, x, rows, weights, expected):
    """A call of a kernel on rows `x`, or on these in order, and how far it is from a product without what follows."""
    n = expected.shape[1]
    output = torch.full((routing.rows, n // sort.halves), float("nan"), device="cuda", dtype=torch.bfloat16)
    call = Product(kernels, sort, x if sort.gathers else rows, weights, output, routing.counts, routing.sources,
                   routing.targets)
    call()
    reference = expected
    if sort.halves == 2:
        reference = torch.nn.functional.silu(expected[:, :n // 2].float()) * expected[:, n // 2:].float()
    return call, error_of(output[routing.targets.long()] if sort.scatters else output, reference)


def run(kernels, model, product, tokens, weights):
    hidden, inner, experts, top_k = MODELS[model]
    k, n = (hidden, 2 * inner) if product == "up" else (inner, hidden)
    routing = Routing(random_ids(tokens, experts, top_k), experts)
    x = torch.randn(tokens if product == "up" else routing.rows, k, device="cuda").bfloat16()
    rows = x[routing.sources.long()].contiguous() if product == "up" else x
    by_columns, kept, calls, errors = weights.transpose(-2, -1), {}, {}, {}

    def grouped_mm():
        kept["y"] = torch._grouped_mm(rows, by_columns, offs=routing.ends)

    grouped_mm()
    expected = kept["y"].clone()
    calls["torch"] = grouped_mm
    for one in (tiles_of(routing, product, n, k) if kernels else ()):
        calls[one.name], errors[one.name] = checked_call(kernels, one, routing, x, rows, weights, expected)
    if product == "up" and kernels:
        moved = torch.empty_like(rows)
        calls["gather alone"] = lambda: torch.index_select(x, 0, routing.sources, out=moved)
    for form, call, result in (deep_gemm_forms(routing, tokens, rows, weights, n) if deep_gemm else ()):
        call()
        errors[form], calls[form] = error_of(result(), expected), call
    torch.cuda.synchronize()
    wrong = {name: error for name, error in errors.items() if not error < WORST_ERROR}
    if wrong:
        raise RuntimeError(f"{model} {product} {tokens}: wrong results: {wrong}")
    if not kernels:
        return None
    return {"model": model, "product": product, "tokens": tokens, "rows": routing.rows, "experts": experts,
            "active": routing.active, "n": n, "k": k, "tile": fitted(routing.rows, routing.active, n, k).name,
            "us": contest(calls),
            "padding": {unit: round(routing.padding(unit), 4) for unit in (16, 64, 128)}}


def weights_of(model, product):
    hidden, inner, experts, _ = MODELS[model]
    shape = (experts, 2 * inner, hidden) if product == "up" else (experts, hidden, inner)
    weights = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
    for expert in weights:
        expert.normal_(std=shape[2] ** -0.5)
    return weights


def line_of(row):
    us = {name: times[0] for name, times in row["us"].items()}
    best = min([value for name, value in us.items() if name.startswith("deepgemm")], default=math.inf)
    ours = us[row["tile"]]
    tflops = 2 * row["rows"] * row["n"] * row["k"] / ours / 1e6
    return (f"{row['model']} {row['product']} {row['tokens']}: {row['tile']} {ours:.0f} us, {tflops:.0f} TFLOP/s; "
            f"torch {us['torch'] / ours:.2f}, deepgemm {best / ours:.2f}")


def version_of_deep_gemm():
    """The package that has it, and its version; empty without one."""
    for package in importlib.metadata.packages_distributions().get("deep_gemm", []):
        return f"{package} {importlib.metadata.version(package)}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--seconds", type=float, default=600, help="begin no product after so many")
    parser.add_argument("--commit", default="")
    parser.add_argument("--date", default="")
    parser.add_argument("--warm", help=argparse.SUPPRESS)  # MODEL,PRODUCT: only makes DeepGEMM compile its kernels
    args = parser.parse_args()
    start, tokens = time.time(), [int(count) for count in args.tokens.split(",")]
    products = [(model, product) for model in args.models.split(",") for product in ("up", "down")]
    if args.warm:
        model, product = args.warm.split(",")
        weights = weights_of(model, product)
        for count in tokens:
            run(None, model, product, count, weights)
        return
    if deep_gemm:
        def warm(one):
            subprocess.run([sys.executable, __file__, "--warm", ",".join(one), "--tokens", args.tokens], check=True)

        with concurrent.futures.ThreadPoolExecutor(MOST_WARMING) as pool:
            list(pool.map(warm, products))
    kernels = Kernels(all_tiles(args.models.split(","), tokens))
    rows = []
    for model, product in products:
        weights = weights_of(model, product)
        for count in tokens:
            if time.time() - start < args.seconds:
                rows.append(run(kernels, model, product, count, weights))
                print(line_of(rows[-1]), flush=True)
        del weights
        gc.collect()
        torch.cuda.empty_cache()
    if args.out:
        result = {"benchmark": "grouped", "of": "turns shuffled", "machine": torch.cuda.get_device_name(0),
                  "commit": args.commit, "date": args.date, "torch": torch.__version__,
                  "data": "standard normal, random routing", "deep_gemm": version_of_deep_gemm(),
                  "order": "shuffled in every round", "rows": rows}
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
