#!/usr/bin/env python3
"""Makes other people's kernels for layers of experts compile before bench/contests/layers.py measures: DeepGEMM's, a few seconds
each, and those in Triton, many at a time.

    bench/rivals/warm_experts.py --shapes FILE --ranks 2 [--jobs 16]

Shapes are as bench/shapes/layers.py prints them; only layers of experts have such kernels. Each process has some of
them, takes the GPUs in turn, and runs what one rank would once, on whatever its memory holds. A layer that fails is
named; the exit status says nothing of it, since the benchmark will.
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

KINDS = ("moe-tp", "moe-tp-up", "moe-tp-down", "moe-ep")


def layers_of(path):
    """(kind, sizes), each once; what kernels are made for does not hang on which half of a layer is measured."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            kind, *words = line.split("#")[0].split() or [""]
            if kind not in KINDS:
                continue
            sizes = {key: int(value) for key, value in (word.split("=") for word in words) if key != "ranks"}
            layer = ("moe-ep" if kind == "moe-ep" else "moe-tp", sizes)
            if layer not in found:
                found.append(layer)
    return found


def warm(kind, sizes, ranks):
    """What went wrong, or nothing."""
    import torch

    from bench.rivals import expert_paths
    from bench.rivals.path_base import Place
    try:
        made = expert_paths.PATHS[kind](Place(0, ranks, "cuda", ""), **sizes)
        for _, passes, (up, down) in made.forms:
            passes.order(made.whole)
            up()
            passes.activate()
            down()
            passes.total(made.sums)
        torch.cuda.synchronize()
    except Exception as error:  # of other people's code, whatever it is
        return f"{kind} {sizes}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    del made
    torch.cuda.empty_cache()
    return ""


def begin(number, gpus):
    """A process of the pool takes a GPU, before anything asks for one."""
    with number.get_lock():
        mine, number.value = number.value, number.value + 1
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus[mine % len(gpus)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1))
    args = parser.parse_args()
    layers = layers_of(args.shapes)
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    gpus = gpus or [str(gpu) for gpu in range(args.ranks)]
    context = multiprocessing.get_context("spawn")
    number = context.Value("i", 0)
    with concurrent.futures.ProcessPoolExecutor(min(args.jobs, max(1, len(layers))), context, begin,
                                                (number, gpus)) as pool:
        some = [pool.submit(warm, kind, sizes, args.ranks) for kind, sizes in layers]
        problems = [problem for one in some if (problem := one.result())]
    print("\n".join([f"{len(layers) - len(problems)} layers of {len(layers)} have their kernels", *problems]))


if __name__ == "__main__":
    main()
