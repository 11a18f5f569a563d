#!/usr/bin/env python3
"""Every tile of the grouped kernel on products of a rank's experts: the one it chooses, the best, and others' kernels.

    bench/experts/grouped_choice.py --out results.json [--loads qwen30b:ep8:128,mixtral:ep8:2048] [--seconds 200] [--rivals]

First each kernel is checked: integers exactly, and the same bits for several numbers of blocks. Then the two products
of each load, gate and up with SwiGLU and down, are multiplied by all tiles that could be the best there, in turns. With
--rivals torch._grouped_mm and DeepGEMM's grouped products take part, of sorted rows and without SwiGLU.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from bench.experts import grouped_contest  # noqa: E402
from bench.experts.grouped_check import WORST_ERROR, named, wrong_tiles  # noqa: E402
from bench.experts.grouped_contest import (Routing, checked_call, contest, deep_gemm, deep_gemm_forms,  # noqa: E402
                                           error_of, ids_of, version_of_deep_gemm)
from bench.experts.grouped_kernels import Kernels, compile_all  # noqa: E402
from bench.experts.grouped_tiles import TILES, expert_us, filled, fitted, for_short_k, has_registers  # noqa: E402
from bench.shapes.moe_layers import ROUTINGS, data_of, local  # noqa: E402

LOADS = ("mixtral:ep8:128", "mixtral:ep8:256", "mixtral:ep8:16", "qwen30b:ep8:128", "mixtral:tp8:1024",
         "qwen235b:ep8:128", "gptoss:ep8:128", "glm45:ep8:256", "dsv3:ep8:256", "mixtral:ep8:64", "mixtral:tp8:128",
         "qwen30b:ep8:1024", "qwen235b:ep8:512", "gptoss:ep8:1024", "dsv3:ep8:64", "dsv3:tp8:256", "glm45:tp8:512",
         "mixtral:ep8:512")
ROUTING = "uniform"
WORTH_TIMING = 1.3  # times what the best should take
MOST_TIMED = 6  # of sorted rows, and as many of gathered ones


def tiles_of(rows, experts, n, k, product):
    """Those that could be the best, by what the model says; the chosen ones first."""
    found = []
    for gathers in (False, True):
        mean = rows // max(experts, 1)
        made = [short for tile in TILES if has_registers(tile, gathers, joins=product == "up") and k >= 128 * tile.ranges
                and (short := for_short_k(tile, mean, k))]
        us = {tile: expert_us(tile, mean, experts, n, k, gathers) for tile in made}
        near = [tile for tile in us if us[tile] < WORTH_TIMING * min(us.values())]
        chosen = fitted(rows, experts, n, k, gathers=gathers, joins=product == "up")
        order = sorted(near, key=lambda tile: (tile != chosen, us[tile]))
        found += [filled(tile._replace(gathers=gathers, follower="swiglu" if product == "up" else "none"))
                  for tile in order[:MOST_TIMED]]
    return found


def routing_of(load):
    model, part, count = load.split(":")
    _, _, experts, top_k, tokens = local(model, part, int(count))
    return Routing(ids_of(tokens, experts, top_k, ROUTING), experts)


def tokens_of(load):
    model, part, count = load.split(":")
    return local(model, part, int(count))[4]


def sizes_of(load, product):
    """(n, k)"""
    model, part, count = load.split(":")
    hidden, inner, *_ = local(model, part, int(count))
    return (2 * inner, hidden) if product == "up" else (hidden, inner)


def all_tiles(loads):
    found = []
    for load in loads:
        routing = routing_of(load)
        for product in ("up", "down"):
            found += tiles_of(routing.rows, routing.active, *sizes_of(load, product), product)
    return list(dict.fromkeys(found))


def run(kernels, load, product, weights, rivals):
    n, k = sizes_of(load, product)
    routing = routing_of(load)
    tokens = tokens_of(load)
    if product == "down":
        routing.sources = routing.targets  # a choice's row, where up it is its token's
    x = torch.randn(tokens if product == "up" else routing.rows, k, device="cuda").bfloat16()
    rows = x[routing.sources.long()].contiguous()
    calls, errors, kept, by_columns = {}, {}, {}, weights.transpose(-2, -1)

    def grouped_mm():
        kept["y"] = torch._grouped_mm(rows, by_columns, offs=routing.ends)

    grouped_mm()
    expected = kept["y"].clone()
    if rivals:
        calls["torch"] = grouped_mm
    most = int(routing.counts_here.max())
    for tile in (tiles_of(routing.rows, routing.active, n, k, product) if kernels else ()):
        if tile not in kernels.functions:
            continue
        calls[tile.name], errors[tile.name] = checked_call(kernels, tile, routing, x, rows, weights, expected)
    if deep_gemm and rivals and k % 64 == 0:
        for form, call, result in deep_gemm_forms(routing, tokens, rows, weights, n):
            call()
            errors[form], calls[form] = error_of(result(), expected), call
    torch.cuda.synchronize()
    wrong = {name: error for name, error in errors.items() if not error < WORST_ERROR}
    if not kernels:
        return None
    chosen = fitted(routing.rows, routing.active, n, k, joins=product == "up")._replace(follower="swiglu" if product == "up" else "none")
    return {"load": load, "product": product, "rows": routing.rows, "experts": weights.shape[0],
            "active": routing.active, "most": most, "n": n, "k": k, "chosen": chosen.name,
            "wrong": wrong, "us": contest({name: call for name, call in calls.items() if name not in wrong})}


def weights_of(load, product):
    model, part, _ = load.split(":")
    shape = (local(model, part, 1)[2], *sizes_of(load, product))
    weights = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
    for expert in weights:
        expert.normal_(std=shape[2] ** -0.5)
    return weights


def line_of(row):
    us = {name.replace(" swiglu", ""): times[0] for name, times in row["us"].items()}
    ours = {name: took for name, took in us.items() if not name.startswith(("deepgemm", "torch"))}
    best = sorted((took, name) for name, took in ours.items() if "gathered" not in name)
    gathered = min(((took, name) for name, took in ours.items() if "gathered" in name), default=None)
    rival = min((took for name, took in us.items() if name not in ours), default=None)
    mean = row["rows"] // max(1, row["active"])
    return (f"{row['load']} {row['product']} {mean} (most {row['most']}) x{row['active']} "
            f"n{row['n']} k{row['k']}: now {us.get(row['chosen'].replace(' swiglu', ''), float('nan')):.1f}"
            + (f" rival {rival:.1f}" if rival else "") + " | " + ", ".join(f"{name} {took:.1f}" for took, name in best)
            + (f" | {gathered[1]} {gathered[0]:.1f}" if gathered else "")
            + (f" WRONG {row['wrong']}" if row["wrong"] else ""))


def main():
    global ROUTING, WORTH_TIMING, MOST_TIMED
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--rivals", type=int, default=0, help="DeepGEMM and torch take part in the first so many loads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiles", type=int, default=MOST_TIMED, help="so many of sorted rows, and as many of gathered ones")
    parser.add_argument("--routing", choices=ROUTINGS, default="uniform")
    parser.add_argument("--worth", type=float, default=WORTH_TIMING, help="time what should take this times the best, or less")
    parser.add_argument("--seconds", type=float, default=600, help="begin no product after so many")
    parser.add_argument("--commit", default="")
    parser.add_argument("--date", default="")
    parser.add_argument("--check", help="only these tiles, such as 128x128/4,192x96, are checked, and none is timed")
    # Only makes DeepGEMM compile its kernels.
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    loads, start = args.loads.split(","), time.time()
    ROUTING, WORTH_TIMING, MOST_TIMED = args.routing, args.worth, args.tiles
    grouped_contest.ROUNDS, grouped_contest.GRAPH_US = args.rounds, 2000
    torch.backends.cuda.matmul.allow_tf32 = False
    if args.check:
        tiles, folder = named(args.check), tempfile.mkdtemp()
        compile_all(tiles, pathlib.Path(folder))
        print(f"compiled, {time.time() - start:.0f} s", flush=True)
        sys.exit(bool(wrong_tiles(folder, tiles)))
    if args.warm:
        for product in ("up", "down"):
            run(None, loads[0], product, weights_of(loads[0], product), True)
        return
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        warming = [pool.submit(subprocess.run, [sys.executable, __file__, "--warm", "--loads", load], check=False)
                   for load in (loads[:args.rivals] if deep_gemm else ())]
        folder = tempfile.mkdtemp()
        kernels = Kernels(all_tiles(loads), folder)
        print(f"{len(kernels.functions)} kernels, {time.time() - start:.0f} s", flush=True)
        for one in warming:
            one.result()
    print(f"warm, {time.time() - start:.0f} s", flush=True)
    wrong = wrong_tiles(folder, list(kernels.functions))
    for tile in wrong:
        del kernels.functions[tile]
    bad = {tile.name: why for tile, why in wrong.items()}
    print(f"wrong: {bad or 'none'}, {time.time() - start:.0f} s", flush=True)
    result = {"benchmark": "grouped choice", "machine": torch.cuda.get_device_name(0), "commit": args.commit,
              "date": args.date, "torch": torch.__version__, "deep_gemm": version_of_deep_gemm(), "wrong": bad,
              "data": data_of(args.routing), "rows": []}
    for number, load in enumerate(loads):
        for product in ("up", "down"):
            if time.time() - start > args.seconds:
                continue
            result["rows"].append(run(kernels, load, product, weights_of(load, product), number < args.rivals))
            print(line_of(result["rows"][-1]), flush=True)
            if args.out:  # each time, so that a run that is cut off leaves what it has
                pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
