#!/usr/bin/env python3
"""PyTorch's two paths for the fused operators, NCCL + matmul and AsyncTP, and Stretto's `auto` beside them.

    torchrun --nproc-per-node 4 bench/torch_baselines.py --shapes FILE --out torch.json

A shapes file has one operator a line, as Stretto prints them: "ag-gemm m=4096 n=28672 k=8192"
(global sizes; '#' starts a comment). All contestants work on the same tensors, standard normal, in the same
processes, each in a CUDA graph of ten runs back to back, and take turns. A figure is the median over rounds of
the slowest rank's time of a graph behind another launch of it, with the 10th and 90th percentile. Results are compared
with an fp32 reference before they are timed and after the last round.

Stretto takes part where its Python binding is found (python/stretto; STRETTO_LIBRARY says where the library is), with
an operation of fixed rows. One contestant's error or time-out does not end the others; where it takes the GPU with
it, start torchrun with --max-restarts 5: a restarted job goes on without that contestant.

gemm-ar has no AsyncTP form; PyTorch's two-shot all-reduce on symmetric memory stands in its place.
"""

import argparse
import datetime
import functools
import gc
import json
import os
import pathlib
import random
import subprocess
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._symmetric_memory as symm_mem  # noqa: E402
from torch.distributed.rendezvous import rendezvous  # noqa: E402

from contest import Agreement, Contest, Lost, StepFile  # noqa: E402
from torch_contestants import Contestant, Operator, Stretto, figures, wait_for_gpu  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

STRETTO_WAIT_S = 5  # Stretto's own deadline of a wait
MOST_STEP_S = 300  # for the other ranks
MOST_TURN_MS = 10_000  # who takes MOST_WAIT_S has hung, and GPUs may become slower
OPERATORS = ("ag-gemm", "gemm-rs", "gemm-ar")


def parse_shapes(path):
    shapes = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            sizes = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            if words[0] not in OPERATORS or not {"m", "n", "k"} <= sizes.keys():
                sys.exit(f"{path}:{number}: expected 'OPERATOR m=.. n=.. k=..' with one of "
                         f"{', '.join(OPERATORS)}")
            shapes.append((words[0], *(int(sizes[key]) for key in "mnk")))
    return shapes


def operator_text(name, m, n, k):
    return f"{name} m={m} n={n} k={k} ranks={dist.get_world_size()} dtype=bf16"


def turns_of_round(contestants, turn):
    """Contestants in an order that is another in every round, and the same on all ranks: who always goes behind the
    same one would be measured with that one's heat."""
    turns = list(contestants.items())
    random.Random(turn).shuffle(turns)
    return turns


class Job:
    """What all rows share: the shapes' type, PyTorch's group, Stretto's context or why there is none."""

    def __init__(self, args, group, agree, steps):
        self.rounds, self.turn_ms = args.rounds, args.turn
        self.group, self.agree, self.steps = group, agree, steps
        self.context, self.without = None, ""

    def open_stretto(self, problems):
        contest = Contest(None, self.agree, self.steps, problems, wait_for_gpu)
        self.context = contest.attempt("stretto", self._open_stretto)
        self.without = contest.problems.get("stretto", "")

    def _open_stretto(self):
        try:
            import stretto
            stretto.version()  # finds the library
        except ImportError as error:
            raise RuntimeError(str(error)) from None
        self.stretto = stretto
        return stretto.Context(timeout_s=STRETTO_WAIT_S)

    def make_stretto(self, op, m, n, k):
        made = Stretto(self.context, self.stretto.Operation, op, m, n, k)
        wait_for_gpu()
        return made

    def measure(self, name, m, n, k, problems):
        row = {"operator": operator_text(name, m, n, k)}
        contest = Contest(row["operator"], self.agree, self.steps, problems, wait_for_gpu)
        op, reference = contest.attempt("row", lambda: self._tensors(name, m, n, k)) or (None, None)
        if op is None:
            return {**row, "failed": contest.problems["row"]}
        made = functools.partial(Contestant, turn_ms=self.turn_ms)
        contestants = {"gemm": made(op.gemm), "nccl": made(op.collective),
                       "sequential": made(op.sequential, reference=reference),
                       "fused": made(op.fused, reference=reference)}
        ours = None
        if self.context is not None:
            ours = contest.attempt("stretto", lambda: self.make_stretto(op, m, n, k))
        if ours is not None:
            contestants["stretto"] = made(ours.run, ours.operation.finish, reference)
            row["stretto_schedule"] = ours.operation.schedule()
        for label, one in contestants.items():
            contest.attempt(label, one.prepare)
        for turn in range(self.rounds):
            for label, one in turns_of_round(contestants, turn):
                contest.attempt(label, one.take_turn)
        for label, one in contestants.items():
            contest.attempt(label, one.take_slowest)
            if one.reference is not None:
                contest.attempt(label, one.verify_graph)
        for label, one in contestants.items():
            row.update(figures(label, one, contest.problems))
        if "stretto" in contest.problems:
            row["stretto_failed"] = contest.problems["stretto"]
        contestants.clear()
        del one  # graphs end before what they run
        gc.collect()
        if ours is not None:
            contest.problems.pop("stretto", None)
            contest.attempt("stretto", lambda: (wait_for_gpu(), ours.operation.close()))
        return row

    def _tensors(self, name, m, n, k):
        op = Operator(name, m, n, k, torch.bfloat16, self.group)
        reference = op.reference()
        wait_for_gpu()
        return op, reference


def commit():
    result = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True, check=False, cwd=os.path.dirname(__file__) or ".")
    return result.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turn", type=float, default=0, metavar="MS",
                        help="shortest turn, its second half timed; default: two launches of a graph")
    parser.add_argument("--commit", default=None, help="recorded; default: the checkout's")
    args = parser.parse_args()
    shapes = parse_shapes(args.shapes)
    if args.rounds < 1:
        sys.exit("--rounds must be at least 1")
    if not 0 <= args.turn <= MOST_TURN_MS:
        sys.exit(f"--turn must be from 0 to {MOST_TURN_MS} ms")
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, ranks = next(rendezvous("env://"))
    store.set_timeout(datetime.timedelta(seconds=MOST_STEP_S))
    dist.init_process_group("nccl", store=dist.PrefixStore("torch", store), rank=rank,
                            world_size=ranks,
                            device_id=torch.device("cuda", torch.cuda.current_device()))
    group = dist.group.WORLD.group_name
    symm_mem.enable_symm_mem_for_group(group)
    steps = StepFile(args.out + ".step", rank == 0)
    job = Job(args, group, Agreement(dist.PrefixStore("contest", store), rank, ranks), steps)
    try:
        rows = measure_all(job, shapes, args)
    except Lost as error:
        print(f"torch_baselines: rank {rank}: {error}", file=sys.stderr, flush=True)
        time.sleep(0 if rank == 0 else 3)  # the first who ends ends all, and rank 0 notes why
        os._exit(3)  # nothing waits for the GPU any more; torchrun may start the job again
    steps.remove()
    if rank == 0:
        failures = [row for row in rows if any(key.endswith("failed") for key in row)]
        print(f"{len(rows)} rows, {len(failures)} with a contestant that failed", flush=True)
    del job
    dist.destroy_process_group()


def measure_all(job, shapes, args):
    """The rows, written after each; those that an earlier process of this job measured are kept."""
    rows, row_to_repeat, problems = [], None, {}
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        row_to_repeat, problems = job.steps.read()
        rows = rows_of(args.out)
    elif dist.get_rank() == 0:
        job.steps.remove()
        pathlib.Path(args.out).unlink(missing_ok=True)
    job.agree("", False)  # all have read before one writes
    job.open_stretto(problems if row_to_repeat is None else {})
    if dist.get_rank() == 0 and job.without:
        print(f"without Stretto: {job.without}", flush=True)
    for name, m, n, k in shapes[len(rows):]:
        repeats = operator_text(name, m, n, k) == row_to_repeat
        row = job.measure(name, m, n, k, problems if repeats else {})
        rows.append(row)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
            write(args, job, rows)
    if job.context is not None:
        job.context.close()
    return rows


def rows_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"]
    except FileNotFoundError:
        return []


def write(args, job, rows):
    ours = {"absent": job.without} if job.context is None else {
        "version": job.stretto.version(), "rows": "fixed", "schedule": "auto"}
    with open(args.out + ".new", "w", encoding="utf-8") as file:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        json.dump({"benchmark": "torch", "commit": args.commit or commit(), "date": today,
                   "machine": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "ranks": dist.get_world_size(), "data": "standard normal",
                   "rounds": args.rounds, "turn_ms": args.turn, "stretto": ours,
                   "rows": rows}, file, indent=1)
        file.write("\n")
    os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
