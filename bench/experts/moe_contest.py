#!/usr/bin/env python3
"""Whole layers of experts on one GPU: the plan, its two products alone by the grouped kernel, PyTorch and DeepGEMM.

    bench/experts/moe_contest.py --out results.json [--models dsv3] [--loads ep8,tp8] [--tokens 64,1024,8192] [--seconds 100]
                         [--routing uniform|zipf|one-hot] [--kernels]

A rank of eight by itself, without its links: with `ep8` it has an eighth of the experts and every choice is theirs,
with `tp8` an eighth of each expert's inner columns. A row has microseconds, medians of graphs in turns: the plan of
`moe-ep` (ids to sums, tensors of the caller's), gate and up with SwiGLU and then down by the grouped kernel on sorted
rows, which routes, gathers and sums nothing, and others' layers, each in one graph (moe_rivals.py): PyTorch, and where
`deep_gemm` is installed both forms of its grouped products behind one-pass kernels in Triton. Results are compared with
a reference in fp32; who fails or is wrong is named in its row. With --kernels a row also has what kernels of each take, and by
how much each ends behind the one before.
"""

import argparse
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

import torch  # noqa: E402

from bench.contests.kernel_times import kernels_in, steps_in  # noqa: E402
from bench.experts.grouped_contest import Routing, contest, error_of, ids_of  # noqa: E402
from bench.experts.grouped_kernels import Kernels, Product  # noqa: E402
from bench.experts.grouped_tiles import filled, fitted  # noqa: E402
from bench.rivals.moe_rivals import deep_gemm_version, rivals  # noqa: E402
from bench.shapes.moe_layers import ROUTINGS, best_deep_gemm, data_of, local  # noqa: E402

import stretto  # noqa: E402

WORST_ERROR = 8e-3
ORDER = ("qwen30b", "dsv3", "mixtral", "gptoss", "qwen235b", "glm45")


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


def tiles_of(routing, hidden, inner):
    """Of gate and up, and of down."""
    up = fitted(routing.rows, routing.active, 2 * inner, hidden)
    return filled(up._replace(follower="swiglu")), fitted(routing.rows, routing.active, hidden, inner)


def all_tiles(models, loads, counts, routing):
    found = set()
    for model in models:
        for load in loads:
            for count in counts:
                hidden, inner, experts, top_k, tokens = local(model, load, count)
                found.update(tiles_of(Routing(ids_of(tokens, experts, top_k, routing), experts), hidden, inner))
    return found


def by_kernels(kernels, x, routing, gate_up, down):
    rows = x[routing.sources.long()].contiguous()
    act = torch.empty(routing.rows, down.shape[2], device="cuda", dtype=torch.bfloat16)
    out = torch.empty(routing.rows, down.shape[1], device="cuda", dtype=torch.bfloat16)
    up_tile, down_tile = tiles_of(routing, *down.shape[1:])
    rest = (routing.counts, routing.sources, routing.targets)
    return {"up alone": Product(kernels, up_tile, rows, gate_up, act, *rest),
            "down alone": Product(kernels, down_tile, act, down, out, *rest)}


def by_plan(context, schedule, sizes, tensors):
    operation = stretto.Operation(context, "moe-ep", rows="fixed", schedule=schedule, **sizes)

    def call():
        operation.run(tensors)

    return operation, call


def run(context, kernels, model, load, tokens, schedules, routing, with_kernels):
    hidden, inner, experts, top_k, tokens = local(model, load, tokens)
    gate_up = torch.empty(experts, 2 * inner, hidden, device="cuda", dtype=torch.bfloat16)
    down = torch.empty(experts, hidden, inner, device="cuda", dtype=torch.bfloat16)
    for one in (*gate_up, *down):
        one.normal_(std=one.shape[1] ** -0.5)
    x = torch.randn(tokens, hidden, device="cuda").bfloat16()
    here = ids_of(tokens, experts, top_k, routing)
    ids = here.int().cuda()
    weights = torch.rand(tokens, top_k, device="cuda")
    weights /= weights.sum(1, keepdim=True)
    expected = reference(x, ids, weights, gate_up, down)
    wg, wu = gate_up[:, :inner].contiguous(), gate_up[:, inner:].contiguous()
    sizes = {"t": tokens, "h": hidden, "f": inner, "experts": experts, "k": top_k}
    outputs, calls, operations, errors, refused = {}, {}, [], {}, {}
    for name in schedules:
        outputs[name] = torch.full_like(x, float("nan"))
        tensors = {"x": x, "ids": ids, "weights": weights, "wg": wg, "wu": wu, "wd": down, "y": outputs[name]}
        try:
            operation, calls[name] = by_plan(context, name, sizes, tensors)
            operations.append(operation)
        except ValueError as error:
            refused[name] = str(error)
    for name, make in rivals(here, experts).items():
        outputs[name] = torch.full_like(x, float("nan"))
        try:
            call = make(x, ids, weights, gate_up, down, outputs[name])
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:  # of whatever kind: others' code
            refused[name] = f"{type(error).__name__}: {error}"[:300]
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        errors[name] = error_of(outputs[name], expected)
    taken = {name: kernels_in(call) for name, call in calls.items()} if with_kernels else {}
    steps = {name: steps_in(call) for name, call in calls.items()} if with_kernels else {}
    calls |= by_kernels(kernels, x, Routing(here, experts), gate_up, down)
    us = contest(calls)
    for name in errors:
        errors[name] = max(errors[name], error_of(outputs[name], expected))
    told = [operation.schedule() for operation in operations]
    for operation in operations:
        operation.finish()
        operation.close()
    return {"model": model, "load": load, **sizes, "routing": routing, "deep_gemm": deep_gemm_version(), "us": us,
            "errors": errors, "refused": refused, "schedules": told, **({"kernels": taken, "steps": steps} if taken else {})}


def line_of(row, schedules):
    us = {name: times[0] for name, times in row["us"].items()}
    products = us["up alone"] + us["down alone"]
    flops = 6 * row["t"] * row["k"] * row["h"] * row["f"]
    ours = min((us[name] for name in schedules if name in us), default=float("nan"))
    wrong = [name for name, error in row["errors"].items() if not error < WORST_ERROR]
    plans = " ".join(f"{us[name]:8.1f}" if name in us else "   refused" for name in schedules)
    others = {"torch": us.get("torch"), "deepgemm": best_deep_gemm(row["us"])}
    beside = " ".join(f"{name} {took:8.1f} {name}/plan {took / ours:5.2f}" if took else f"{name} not there"
                      for name, took in others.items())
    failed = {name: why for name, why in row["refused"].items() if name not in schedules}
    return (f"{row['model']:9} {row['load']} t {row['t']:5} rows/expert {row['t'] * row['k'] / row['experts']:7.1f} "
            f"plan {plans} products {products:8.1f} ({us['up alone']:.1f} + {us['down alone']:.1f}) "
            f"{beside} plan/products {ours / products:5.2f} {flops / ours / 1e6:4.0f} TFLOP/s"
            + (f" WRONG {wrong} {row['errors']}" if wrong else "") + (f" FAILED {failed}" if failed else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--models", default=",".join(ORDER))
    parser.add_argument("--loads", default="ep8,tp8")
    parser.add_argument("--tokens", default="64,1024,8192")
    parser.add_argument("--routing", choices=ROUTINGS, default="uniform")
    parser.add_argument("--schedules", default="sequential", help="several separated by spaces")
    parser.add_argument("--kernels", action="store_true", help="what kernels take, by PyTorch's profiler")
    parser.add_argument("--seconds", type=float, default=600, help="begin no row after so many")
    parser.add_argument("--of", help="what the report's section is called, where another has its name")
    parser.add_argument("--commit", default="")
    parser.add_argument("--date", default="")
    args = parser.parse_args()
    start, schedules, rows = time.time(), args.schedules.split(), []
    torch.backends.cuda.matmul.allow_tf32 = False
    kernels = Kernels(all_tiles(args.models.split(","), args.loads.split(","), list(map(int, args.tokens.split(","))),
                                args.routing))
    print(f"kernels {time.time() - start:.0f} s", flush=True)
    with stretto.Context(rank=0, ranks=1, gpu=0) as context:
        for model in args.models.split(","):
            for load in args.loads.split(","):
                for tokens in map(int, args.tokens.split(",")):
                    if time.time() - start > args.seconds:
                        continue
                    rows.append(run(context, kernels, model, load, tokens, schedules, args.routing, args.kernels))
                    print(line_of(rows[-1], schedules), flush=True)
                    for name, steps in rows[-1].get("steps", {}).items():
                        print(f"    {name}:", ", ".join(f"{kernel[:24]} {us}" for kernel, us in steps), flush=True)
                    torch.cuda.empty_cache()
    if args.out:
        result = {"benchmark": "moe", "machine": torch.cuda.get_device_name(0), "commit": args.commit,
                  "date": args.date, "torch": torch.__version__, "deep_gemm": deep_gemm_version(),
                  "routing": args.routing, "data": data_of(args.routing), "rows": rows}
        if args.of:
            result = {"benchmark": "moe", "of": args.of, **result}
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
