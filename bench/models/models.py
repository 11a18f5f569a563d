#!/usr/bin/env python3
"""Whole models of Llama's shape on tensor-parallel ranks: Stretto beside NCCL with cuBLAS, and AsyncTP.

    torchrun --nproc-per-node 2 bench/models/models.py --out FOLDER [--models llama-3-8b,llama-3-70b] [--layers 8]

Random weights and hidden states, the same for all ways (tp_ways.py), in one process a rank. Prefill is one sequence of
so many tokens, decode one token of each of so many sequences with --context tokens before, training forward and
backward of one sequence; of each, sizes are measured in the order given, and models in turns where --layers says how
many each has, so that a job that is cut off has some of all. Ways take turns; a figure is the median over rounds of the
slowest rank's time. "graph": in CUDA graphs; "compiled": layers compiled by torch.compile, in CUDA graphs too; "eager"
as it is. Logits, and of training gradients, are compared with one rank's in fp32. "alone" ways communicate nothing, and
are no rivals but what no way can be faster than. With --kernels each way also has [name, us, launches] of a call on the
first rank, the longest first, and with --timeline [name, start, us, stream] in the order of starts. As many layers as
memory has room for, or --layers. Also on CPUs (gloo, the emulator), where times mean nothing: `--models tiny`.
FOLDER/models.json has everything.
"""

import argparse
import datetime
import gc
import json
import math
import os
import pathlib
import random
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from bench.contests.kernel_times import kernels_in, timeline_of  # noqa: E402
from bench.contests.this_commit import this_commit  # noqa: E402
from bench.models import tp_model  # noqa: E402
from bench.models.model_runs import (Model, error_of, inference, training,  # noqa: E402
                                     training_reference)
from bench.models.tp_ways import FLOORS, OURS, WAYS  # noqa: E402

import stretto  # noqa: E402
import stretto.torch as st  # noqa: E402

MODES = ("eager", "graph", "compiled")
MOST_WAYS_COMPILED = 64  # of a layer's function, of which each way is one; PyTorch's own limit is 8
FEWEST_DEALT = 256  # sequences of decoding below which ways that deal rows to the ranks are no rivals
LOST_S = 120  # whoever waits for another rank longer takes the job down


class Job:
    def __init__(self, args):
        self.args, self.on_gpu = args, torch.cuda.is_available() and not args.cpu
        self.rank, self.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29533")
        if self.on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        dist.init_process_group("nccl" if self.on_gpu else "gloo", rank=self.rank, world_size=self.ranks,
                                timeout=datetime.timedelta(seconds=LOST_S))
        self.host = dist.new_group(backend="gloo")
        self.like = torch.empty(0, dtype=torch.bfloat16, device="cuda" if self.on_gpu else "cpu")
        self.ways, self.left_out = {}, {}
        for name in args.ways:
            way = WAYS[name]()
            try:
                way.ready()
                self.ways[name] = way
            except RuntimeError as error:
                self.left_out[name] = str(error)

    def all(self, value):
        """Every rank's."""
        told = [None] * self.ranks
        dist.all_gather_object(told, value, group=self.host)
        return told

    def attempt(self, call):
        """(what it gives, None), or (None, what a rank could not do): the same branch on all ranks."""
        made, problem = None, None
        try:
            made = call()
            if self.on_gpu:
                torch.cuda.synchronize()
        except Exception as error:  # whatever it is: other ways go on
            problem = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        told = [one for one in self.all(problem) if one]
        return (None, told[0]) if told else (made, None)

    def time(self, call, repeats):
        """Microseconds of one call, on this rank."""
        dist.barrier(group=self.host)
        if not self.on_gpu:
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            return (time.perf_counter() - begin) * 1e6 / repeats
        call()  # the first of a turn waits for the others
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1000 / repeats


def contest(job, names, make, right, repeats):
    """These ways in all modes, by "way mode": the median of the slowest rank's times, and the worst rank's error."""
    calls, found = {}, {}
    for name in names:
        for mode in job.args.modes:
            label = f"{name} {mode}"
            st.reset_report()
            call, problem = job.attempt(lambda: make(name, mode))
            if problem is None and right is not None and not job.ways[name].is_floor:
                errors, problem = job.attempt(lambda: right(call(), job.ways[name]))
                found[label] = {"error": max(max(one) for one in job.all(errors))} if problem is None else {}
            if problem is not None:
                found[label] = {"failed": problem}
                continue
            left = [f"{op}: {why}" for op, why in st.report().fallbacks]
            found.setdefault(label, {}).update({"not_served": left} if left else {})
            calls[label] = call
    times = {label: [] for label in calls}
    for turn in range(job.args.rounds):
        turns = list(calls)
        random.Random(turn).shuffle(turns)
        for label in turns:
            times[label].append(job.time(calls[label], repeats))
    for label, mine in times.items():
        slowest = sorted(max(one) for one in zip(*job.all(mine)))
        found[label].update(us=slowest[len(slowest) // 2], low_us=slowest[len(slowest) // 10],
                            high_us=slowest[-1 - len(slowest) // 10])
        if job.args.kernels and job.on_gpu:
            kernels, _ = job.attempt(lambda: kernels_in(calls[label]))  # noqa: B023 (it is called at once)
            found[label]["kernels"] = kernels or []
        if job.args.timeline and job.on_gpu:
            line, _ = job.attempt(lambda: timeline_of(calls[label]))  # noqa: B023 (it is called at once)
            found[label]["timeline"] = line or []
    return found


def ratio(ways):
    """The best time of PyTorch's ways over the best of ours; None where one of both is missing."""
    best = [min((one["us"] for label, one in ways.items() if label.startswith(OURS) == ours and "us" in one
                 and not label.startswith(FLOORS)), default=None) for ours in (False, True)]
    return None if None in best else best[0] / best[1]


def measure(job, model, kind, rows):
    args, found = job.args, None
    torch.compiler.reset()
    for limit in ("recompile_limit", "cache_size_limit"):  # the newer name and the older one
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, MOST_WAYS_COMPILED)
    if kind == "train":
        count = min(args.train_layers, model.count)
        expected = training_reference(job, model, rows, count)

        def right(got, way):
            return [error_of(got[0], model.part(expected[0], way)), *map(error_of, got[1:], expected[1:])]
        found = contest(job, job.ways, lambda name, mode: training(job, model, rows, name, mode, count), right, 1)
    else:
        expected = model.reference(kind, rows, args.context) if rows <= args.most_checked else None
        names = [name for name, way in job.ways.items() if not way.is_dealt or kind != "decode" or rows >= FEWEST_DEALT]
        found = contest(job, names, lambda name, mode: inference(job, model, kind, rows, name, mode, args.context),
                        None if expected is None else lambda got, way: [error_of(got, expected)], args.repeats)
    return {"kind": kind, "rows": rows, "layers": model.count, "ratio": ratio(found), "ways": found}


def order(args):
    """(model, kind, size) of all rows: of each kind the first sizes first."""
    sizes = {"prefill": args.prefill, "decode": args.decode, "train": args.train}
    places = range(max(map(len, sizes.values()), default=0))
    rows = [(name, kind, some[place]) for place in places for name in args.models for kind, some in sizes.items()
            if place < len(some)]
    return rows if args.layers else sorted(rows, key=lambda row: args.models.index(row[0]))


def told(row):
    timed = sorted((one["us"], label, one) for label, one in row["ways"].items() if "us" in one)
    best = "  ".join(f"{label} {us:.0f} us" + (f" ({one['error']:.1e})" if "error" in one else "")
                     for us, label, one in timed)
    bad = "".join(f"\n    {label}: {one['failed']}" for label, one in row["ways"].items() if "failed" in one)
    left = "".join(f"\n    {label} not served: {'; '.join(one['not_served'])}"
                   for label, one in row["ways"].items() if one.get("not_served"))
    return (f"{row['model']} {row['kind']:7} {row['rows']:6}: " +
            (f"x{row['ratio']:.3f}  " if row["ratio"] else "") + best + bad + left)


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="a folder")
    parser.add_argument("--models", default="llama-3-8b,llama-3-70b", type=lambda text: text.split(","))
    parser.add_argument("--ways", default=",".join(WAYS), type=lambda text: text.split(","))
    parser.add_argument("--modes", default="graph,compiled", type=lambda text: text.split(","))
    parser.add_argument("--prefill", default="2048,512,8192,16384", type=numbers)
    parser.add_argument("--decode", default="64,1,256,16", type=numbers)
    parser.add_argument("--train", default="4096", type=numbers)
    parser.add_argument("--layers", type=int, default=0, help="0: as many as fit")
    parser.add_argument("--train-layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most-checked", type=int, default=2048, metavar="ROWS", help="compared with fp32")
    parser.add_argument("--seconds", type=float, default=3600, help="begins nothing after so long")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="also what each kernel takes in a call")
    parser.add_argument("--timeline", action="store_true", help="also when each kernel of a call starts")
    parser.add_argument("--commit", help="recorded; default: the checkout's")
    args = parser.parse_args()
    for what, given, known in (("--models", args.models, tp_model.SHAPES), ("--ways", args.ways, WAYS),
                               ("--modes", args.modes, MODES)):
        unknown = [one for one in given if one not in known]
        if unknown:
            parser.error(f"{what} names {unknown[0]!r}; known: {', '.join(known)}")
    if args.rounds < 1 or args.repeats < 1:
        parser.error("--rounds and --repeats must be at least 1")
    return args


def write(job, rows):
    if job.rank != 0:
        return
    folder = pathlib.Path(job.args.out)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / "models.json.new"
    new.write_text(json.dumps({
        "benchmark": "models", "commit": job.args.commit or this_commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": torch.cuda.get_device_name() if job.on_gpu else "CPU", "torch": torch.__version__,
        "stretto": stretto.version(), "ranks": job.ranks, "context": job.args.context, "rounds": job.args.rounds,
        "left_out": job.left_out, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    new.rename(folder / "models.json")


def main():
    args = parsed()
    job, rows, until = Job(args), [], time.monotonic() + args.seconds
    for name, reason in job.left_out.items() if job.rank == 0 else ():
        print(f"{name} is left out: {reason}", flush=True)
    models = {}
    for name, kind, size in order(args):
        if any(job.all(time.monotonic() > until)):
            break
        if name not in models:
            if not args.layers:  # the others' would take its room
                models.clear()
                gc.collect()
            models[name] = Model(job, name, args.layers)
        row = {"model": name, **measure(job, models[name], kind, size)}
        rows.append(row)
        write(job, rows)
        if job.rank == 0:
            print(told(row), flush=True)
        gc.collect()
        if job.on_gpu:
            torch.cuda.empty_cache()
    if job.rank == 0:
        for kind in ("decode", "prefill", "train"):
            found = [row["ratio"] for row in rows if row["kind"] == kind and row["ratio"]]
            if found:
                print(f"{kind}: {math.exp(sum(map(math.log, found)) / len(found)):.3f} in geometric mean, "
                      f"{min(found):.3f} at worst")
        sys.stdout.flush()
    os._exit(0)  # graphs hold operations of Stretto and of NCCL, which nothing is to end in an order of its own


if __name__ == "__main__":
    main()
