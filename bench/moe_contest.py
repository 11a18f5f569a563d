#!/usr/bin/env python3
"""Whole layers of experts on one GPU: the plan, its two products alone by the grouped kernel, and PyTorch.

    bench/moe_contest.py --out results.json [--models dsv3] [--loads ep8,tp8] [--tokens 64,1024,8192] [--seconds 100]

A rank of eight by itself, without its links: with `ep8` it has an eighth of the experts and every choice is theirs,
with `tp8` an eighth of each expert's inner columns. A row has microseconds, medians of graphs in turns: the plan of
`moe-ep` (ids to sums, tensors of the caller's), gate and up with SwiGLU and then down by the grouped kernel on sorted
rows, which routes, gathers and sums nothing, and PyTorch: sort, gather, torch._grouped_mm, SwiGLU, torch._grouped_mm,
gather and weighted sum, in one graph. Results are compared with a reference in fp32.
"""

import argparse
import json
import time

import torch
from grouped_contest import MIDDLE, MODELS, TALL, WIDE, Routing, contest, error_of, fitted
from grouped_kernels import Kernels, Product

import stretto

WORST_ERROR = 8e-3
ORDER = ("qwen30b", "dsv3", "mixtral", "gptoss", "qwen235b", "glm45")


def local(model, load, tokens):
    """(hidden, inner, experts, top k, tokens) of a rank of eight."""
    hidden, inner, experts, top_k = MODELS[model]
    if load == "tp8":
        return hidden, inner // 8, experts, top_k, tokens
    experts //= 8
    chosen = min(top_k, experts)
    return hidden, inner, experts, chosen, tokens * top_k // chosen


def ids_of(tokens, experts, top_k):
    """The choices that Routing makes of the same numbers."""
    scores = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(tokens + experts))
    return scores.topk(top_k, dim=1).indices


def reference(x, ids, weights, gate_up, down):
    """In fp32, but for the rounding between the products, which all have."""
    sums = torch.zeros_like(x, dtype=torch.float32)
    inner = down.shape[2]
    for expert in range(len(down)):
        tokens, slots = (ids == expert).nonzero(as_tuple=True)
        if len(tokens) == 0:
            continue
        both = x[tokens].float() @ gate_up[expert].float().T
        act = (torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]).bfloat16().float()
        sums.index_add_(0, tokens, weights[tokens, slots, None] * (act @ down[expert].float().T))
    return sums


def by_torch(x, ids, weights, gate_up, down, y):
    tokens, top_k = ids.shape
    experts, inner = len(down), down.shape[2]
    up_t, down_t, few = gate_up.transpose(1, 2), down.transpose(1, 2), weights.bfloat16()[:, None, :]
    places = torch.arange(tokens * top_k, device="cuda")

    def call():
        flat = ids.flatten().long()
        order = torch.argsort(flat, stable=True)
        ends = torch.zeros(experts, device="cuda", dtype=torch.int64).scatter_add_(
            0, flat, torch.ones_like(flat)).cumsum(0).int()
        both = torch._grouped_mm(x[order // top_k], up_t, offs=ends)
        act = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        rows = torch._grouped_mm(act, down_t, offs=ends)
        back = torch.empty_like(order)
        back[order] = places
        torch.bmm(few, rows[back].view(tokens, top_k, -1), out=y[:, None, :])

    return call


def by_kernels(kernels, x, routing, gate_up, down):
    rows = x[routing.sources.long()].contiguous()
    act = torch.empty(routing.rows, down.shape[2], device="cuda", dtype=torch.bfloat16)
    out = torch.empty(routing.rows, down.shape[1], device="cuda", dtype=torch.bfloat16)
    up_tile = fitted(routing.rows, routing.active, gate_up.shape[1])
    down_tile = fitted(routing.rows, routing.active, down.shape[1])
    rest = (routing.counts, routing.sources, routing.targets)
    return {"up alone": Product(kernels, up_tile._replace(follower="swiglu"), rows, gate_up, act, *rest),
            "down alone": Product(kernels, down_tile, act, down, out, *rest)}


def by_plan(context, schedule, sizes, tensors):
    operation = stretto.Operation(context, "moe-ep", rows="fixed", schedule=schedule, **sizes)

    def call():
        operation.run(tensors)

    return operation, call


def run(context, kernels, model, load, tokens, schedules):
    hidden, inner, experts, top_k, tokens = local(model, load, tokens)
    gate_up = torch.empty(experts, 2 * inner, hidden, device="cuda", dtype=torch.bfloat16)
    down = torch.empty(experts, hidden, inner, device="cuda", dtype=torch.bfloat16)
    for one in (*gate_up, *down):
        one.normal_(std=one.shape[1] ** -0.5)
    x = torch.randn(tokens, hidden, device="cuda").bfloat16()
    ids = ids_of(tokens, experts, top_k).int().cuda()
    weights = torch.rand(tokens, top_k, device="cuda")
    weights /= weights.sum(1, keepdim=True)
    expected = reference(x, ids, weights, gate_up, down)
    wg, wu = gate_up[:, :inner].contiguous(), gate_up[:, inner:].contiguous()
    sizes = {"t": tokens, "h": hidden, "f": inner, "experts": experts, "k": top_k}
    outputs = {name: torch.full_like(x, float("nan")) for name in (*schedules, "torch")}
    calls, operations, errors, refused = {}, [], {}, {}
    for name in schedules:
        tensors = {"x": x, "ids": ids, "weights": weights, "wg": wg, "wu": wu, "wd": down, "y": outputs[name]}
        try:
            operation, calls[name] = by_plan(context, name, sizes, tensors)
            operations.append(operation)
        except ValueError as error:
            refused[name] = str(error)
    calls["torch"] = by_torch(x, ids, weights, gate_up, down, outputs["torch"])
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        errors[name] = error_of(outputs[name], expected)
    calls |= by_kernels(kernels, x, Routing(tokens, experts, top_k), gate_up, down)
    us = contest(calls)
    for name in (*schedules, "torch"):
        if name in calls:
            errors[name] = max(errors[name], error_of(outputs[name], expected))
    told = [operation.schedule() for operation in operations]
    for operation in operations:
        operation.finish()
        operation.close()
    return {"model": model, "load": load, **sizes, "us": us, "errors": errors, "refused": refused, "schedules": told}


def line_of(row, schedules):
    us = {name: times[0] for name, times in row["us"].items()}
    products = us["up alone"] + us["down alone"]
    flops = 6 * row["t"] * row["k"] * row["h"] * row["f"]
    ours = min((us[name] for name in schedules if name in us), default=float("nan"))
    wrong = [name for name, error in row["errors"].items() if not error < WORST_ERROR]
    plans = " ".join(f"{us[name]:8.1f}" if name in us else "   refused" for name in schedules)
    return (f"{row['model']:9} {row['load']} t {row['t']:5} rows/expert {row['t'] * row['k'] / row['experts']:7.1f} "
            f"plan {plans} products {products:8.1f} ({us['up alone']:.1f} + {us['down alone']:.1f}) "
            f"torch {us['torch']:8.1f} torch/plan {us['torch'] / ours:5.2f} plan/products {ours / products:5.2f} "
            f"{flops / ours / 1e6:4.0f} TFLOP/s" + (f" WRONG {wrong} {row['errors']}" if wrong else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--models", default=",".join(ORDER))
    parser.add_argument("--loads", default="ep8,tp8")
    parser.add_argument("--tokens", default="64,1024,8192")
    parser.add_argument("--schedules", default="sequential", help="several separated by spaces")
    parser.add_argument("--seconds", type=float, default=600, help="begin no row after so many")
    parser.add_argument("--commit", default="")
    parser.add_argument("--date", default="")
    args = parser.parse_args()
    start, schedules, rows = time.time(), args.schedules.split(), []
    torch.backends.cuda.matmul.allow_tf32 = False
    kernels = Kernels([*(tile._replace(follower="swiglu") for tile in (WIDE, MIDDLE, TALL)), WIDE, MIDDLE, TALL])
    print(f"kernels {time.time() - start:.0f} s", flush=True)
    with stretto.Context(rank=0, ranks=1, gpu=0) as context:
        for model in args.models.split(","):
            for load in args.loads.split(","):
                for tokens in map(int, args.tokens.split(",")):
                    if time.time() - start > args.seconds:
                        continue
                    rows.append(run(context, kernels, model, load, tokens, schedules))
                    print(line_of(rows[-1], schedules), flush=True)
                    torch.cuda.empty_cache()
    if args.out:
        result = {"benchmark": "moe", "machine": torch.cuda.get_device_name(0), "commit": args.commit,
                  "date": args.date, "torch": torch.__version__, "data": "standard normal, random routing", "rows": rows}
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
