#!/usr/bin/env python3
"""Both products of a rank's experts, one behind the other: tiles of the second begin once the first has ended, or as soon
as their rows are there.

    bench/experts/pairs.py --out results.json [--loads qwen30b:ep8:128,mixtral:tp2:1024] [--seconds 200]

Gate and up with SwiGLU, then down, of sorted rows, by the tiles that the kernel chooses and by those that should be
about as fast. First each pair is checked: what is between the products is poisoned ahead of every run, the first runs
on all SMs and on few, so that the second has nearly all while it runs, and bits are those of two runs with a wait
between. Then pairs are timed in turns, in graphs, both ways.
"""

import argparse
import itertools
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from bench.experts import grouped_choice, grouped_contest  # noqa: E402
from bench.experts.grouped_choice import routing_of, sizes_of, weights_of  # noqa: E402
from bench.experts.grouped_contest import contest  # noqa: E402
from bench.experts.grouped_kernels import Kernels, Product  # noqa: E402
from bench.experts.grouped_tiles import TILES, expert_us, filled, fitted, for_short_k, has_registers  # noqa: E402
from bench.shapes.moe_layers import ROUTINGS, data_of  # noqa: E402

LOADS = ("qwen30b:ep8:128", "qwen30b:ep8:1024", "qwen235b:ep8:1024", "gptoss:ep8:1024", "glm45:ep8:1024", "dsv3:ep8:128",
         "dsv3:ep8:1024", "mixtral:tp2:1024", "qwen30b:tp2:1024", "qwen30b:tp2:8192", "qwen235b:tp2:2048",
         "gptoss:tp2:1024", "mixtral:tp2:64", "glm45:tp2:8192", "mixtral:ep8:1024", "dsv3:tp2:8192")
TIMED = {"up": 3, "down": 2}  # tiles
CHECKS, FEW_SMS = 5, 20


def tiles_of(load, product):
    """The chosen one and those that should be next to it."""
    routing, (n, k), joins = routing_of(load), sizes_of(load, product), product == "up"
    mean = routing.rows // max(routing.active, 1)
    made = [short for tile in TILES if tile.ranges == 1 and has_registers(tile, False, joins=joins)
            and (short := for_short_k(tile, mean, k))]
    chosen = fitted(routing.rows, routing.active, n, k, joins=joins)
    order = sorted(made, key=lambda tile: (tile != chosen, expert_us(tile, mean, routing.active, n, k)))
    follower = "swiglu" if joins else "none"
    return [filled(tile._replace(follower=follower)) for tile in order[:TIMED[product]]]


class Pair:
    def __init__(self, kernels, tiles, routing, x, weights, by_tiles):
        up, down = tiles
        self.inner = torch.empty(routing.rows, weights["up"].shape[1] // 2, device="cuda", dtype=torch.bfloat16)
        self.output = torch.empty(routing.rows, weights["down"].shape[1], device="cuda", dtype=torch.bfloat16)
        tables = routing.counts, routing.sources, routing.targets
        self.up = Product(kernels, up, x, weights["up"], self.inner, *tables, is_asked=by_tiles)
        self.down = Product(kernels, down, self.inner, weights["down"], self.output, *tables, ahead=self.up)

    def __call__(self):
        self.up()
        self.down()

    def result(self, wait):
        """Of poisoned memory."""
        self.inner.fill_(float("nan"))
        self.output.fill_(float("nan"))
        self.up()
        if wait:
            torch.cuda.synchronize()
        self.down()
        torch.cuda.synchronize()
        return self.output.clone()


def is_right(pair):
    expected = pair.result(wait=True)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for blocks in (sms, FEW_SMS):
        pair.up.take(blocks)
        for _ in range(CHECKS):
            if not torch.equal(pair.result(wait=False), expected):
                return False
    pair.up.take(sms)
    return not bool(expected.isnan().any())


def run(kernels, load):
    routing = routing_of(load)
    routing.sources = routing.targets
    weights = {product: weights_of(load, product) for product in ("up", "down")}
    x = torch.randn(routing.rows, sizes_of(load, "up")[1], device="cuda").bfloat16()
    calls, wrong = {}, []
    for tiles in itertools.product(tiles_of(load, "up"), tiles_of(load, "down")):
        for by_tiles in (False, True):
            name = f"{tiles[0].name.replace(' swiglu', '')} then {tiles[1].name}" + " by tiles" * by_tiles
            pair = Pair(kernels, tiles, routing, x, weights, by_tiles)
            if is_right(pair):
                calls[name] = pair
            else:
                wrong.append(name)
    up, down = tiles_of(load, "up")[0], tiles_of(load, "down")[0]
    return {"load": load, "rows": routing.rows, "experts": len(routing.counts), "active": routing.active,
            "chosen": f"{up.name.replace(' swiglu', '')} then {down.name}", "wrong": wrong, "us": contest(calls)}


def line_of(row):
    us = {name: times[0] for name, times in row["us"].items()}
    both = [[name for name in us if name.endswith(" by tiles") == by_tiles] for by_tiles in (False, True)]
    pairs = [("chosen", [row["chosen"], row["chosen"] + " by tiles"])]
    if all(both):
        pairs.append(("best", [min(names, key=us.get) for names in both]))
    told = [f"{what} {' -> '.join(f'{name} {us[name]:.1f}' if name in us else f'no {name}' for name in names)}"
            for what, names in pairs]
    return f"{row['load']}: {' | '.join(told)}" + (f" WRONG {row['wrong']}" if row["wrong"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--seconds", type=float, default=600, help="begin no load after so many")
    parser.add_argument("--routing", choices=ROUTINGS, default="uniform")
    parser.add_argument("--commit", default="")
    parser.add_argument("--date", default="")
    args = parser.parse_args()
    loads, start = args.loads.split(","), time.time()
    grouped_choice.ROUTING = args.routing
    grouped_contest.ROUNDS, grouped_contest.GRAPH_US = 7, 2000
    tiles = list(dict.fromkeys(tile for load in loads for product in ("up", "down") for tile in tiles_of(load, product)))
    kernels = Kernels(tiles, tempfile.mkdtemp())
    print(f"{len(tiles)} kernels, {time.time() - start:.0f} s", flush=True)
    result = {"benchmark": "pairs of products of experts", "of": f"Both products of experts, tile behind tile, {args.routing} routing",
              "machine": torch.cuda.get_device_name(0), "commit": args.commit, "date": args.date,
              "torch": torch.__version__, "data": data_of(args.routing), "rows": []}
    for load in loads:
        if time.time() - start > args.seconds:
            break
        result["rows"].append(run(kernels, load))
        if args.out:
            pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(line_of(result["rows"][-1]), flush=True)


if __name__ == "__main__":
    main()
