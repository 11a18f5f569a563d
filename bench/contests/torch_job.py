"""A job of torchrun whose rows of results are measured one after the other: torch_baselines.py and layers.py.

Rows are written as they come, so that a job that is cut off keeps them. A process whose GPU hangs ends; torchrun
(--max-restarts) starts the job again, which goes on behind the rows that are there, without the guilty contestant.
"""

import datetime
import functools
import gc
import json
import os
import pathlib
import random
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.distributed.rendezvous import rendezvous

from bench.contests.contest import Agreement, Contest, Lost, StepFile
from bench.contests.this_commit import this_commit
from bench.contests.torch_contestants import Contestant, wait_for_gpu

STRETTO_WAIT_S = 5  # Stretto's own deadline of a wait
MOST_STEP_S = 300  # for the other ranks
LOST_S = 150  # of PyTorch's own collectives: beyond, the process ends
MOST_TURN_MS = 10_000  # who takes MOST_WAIT_S has hung, and GPUs may become slower


def add_options(parser, rounds):
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--turn", type=float, default=0, metavar="MS",
                        help="shortest turn, its second half timed; default: two launches of a graph")
    parser.add_argument("--seconds", type=float, default=0, help="begin no row after so many; default: measure all")
    parser.add_argument("--commit", default=None, help="recorded; default: the checkout's")


def checked(args):
    if args.rounds < 1:
        sys.exit("--rounds must be at least 1")
    if not 0 <= args.turn <= MOST_TURN_MS:
        sys.exit(f"--turn must be from 0 to {MOST_TURN_MS} ms")
    if not args.seconds >= 0:
        sys.exit("--seconds must be at least 0")
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    return args


def operator_text(name, sizes):
    words = " ".join(f"{key}={value}" for key, value in sizes.items())
    return f"{name} {words} ranks={dist.get_world_size()} dtype=bf16"


def parse_shapes(path, operators):
    """[(name, sizes)] of a file with an operator a line. operators: name -> the names of its sizes, in their order."""
    shapes = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            sizes = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            wanted = operators.get(words[0])
            if wanted is None or not set(wanted) <= sizes.keys():
                known = "; ".join(f"{name} {' '.join(f'{size}=..' for size in needed)}"
                                  for name, needed in operators.items())
                sys.exit(f"{path}:{number}: expected an operator with its sizes, one of: {known}")
            shapes.append((words[0], {key: int(sizes[key]) for key in wanted}))
    return shapes


def turns_of_round(contestants, turn):
    """Contestants in an order that is another in every round, and the same on all ranks: who always goes behind the
    same one would be measured with that one's heat."""
    turns = list(contestants.items())
    random.Random(turn).shuffle(turns)
    return turns


class Job:
    """What all rows share: PyTorch's group, Stretto's context or why there is none, and how long rows may begin."""

    def __init__(self, args, group, agree, steps):
        self.args, self.rounds, self.turn_ms = args, args.rounds, args.turn
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

    def is_late(self):
        """Whether any rank finds that no row is to begin any more. Time counts from the first process on."""
        is_late = 0 < self.args.seconds < time.time() - self.steps.begun
        return bool(self.agree("late" if is_late else "", False)[0])

    def contest(self, row, problems):
        return Contest(row, self.agree, self.steps, problems, wait_for_gpu)

    def contestant(self, *arguments, **more):
        return Contestant(*arguments, turn_ms=self.turn_ms, **more)

    def take_turns(self, contest, contestants):
        """Times and verifies all that can; `contestants` have their times then."""
        for label, one in contestants.items():
            contest.attempt(label, one.prepare)
        for turn in range(self.rounds):
            for label, one in turns_of_round(contestants, turn):
                contest.attempt(label, one.take_turn)
        for label, one in contestants.items():
            contest.attempt(label, one.take_slowest)
            if one.reference is not None:
                contest.attempt(label, one.verify_graph)


def close(contest, label, operation):
    """Of a contestant that may have failed; graphs must have ended before."""
    contest.problems.pop(label, None)
    contest.attempt(label, lambda: (wait_for_gpu(), operation.close()))


def run(args, shapes, measure, kind, **more):
    """Measures every shape, (name, sizes), by measure(job, name, sizes, problems), which gives a row. `kind`: what the
    results are called; `more` stands in their file, too."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, ranks = next(rendezvous("env://"))
    store.set_timeout(datetime.timedelta(seconds=MOST_STEP_S))
    dist.init_process_group("nccl", store=dist.PrefixStore("torch", store), rank=rank,
                            world_size=ranks, timeout=datetime.timedelta(seconds=LOST_S),
                            device_id=torch.device("cuda", torch.cuda.current_device()))
    group = dist.group.WORLD.group_name
    symm_mem.enable_symm_mem_for_group(group)
    steps = StepFile(args.out + ".step", rank == 0)
    job = Job(args, group, Agreement(dist.PrefixStore("contest", store), rank, ranks), steps)
    try:
        rows = measure_all(job, shapes, measure, functools.partial(write, kind=kind, more=more))
    except Lost as error:
        print(f"{kind}: rank {rank}: {error}", file=sys.stderr, flush=True)
        time.sleep(0 if rank == 0 else 3)  # the first who ends ends all, and rank 0 notes why
        os._exit(3)  # nothing waits for the GPU any more; torchrun may start the job again
    steps.remove()
    if rank == 0:
        failures = [row for row in rows if any(key.endswith("failed") and value for key, value in row.items())]
        left = len(shapes) - len(rows)
        print(f"{len(rows)} rows, {len(failures)} with a contestant that failed"
              + (f"; {left} left out, for the time was over" if left else ""), flush=True)
    del job
    dist.destroy_process_group()


def measure_all(job, shapes, measure, write_rows):
    """The rows, written after each; those that an earlier process of this job measured are kept."""
    args, rows, row_to_repeat, problems = job.args, [], None, {}
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
    for name, sizes in shapes[len(rows):]:
        if job.is_late():
            break
        repeats = operator_text(name, sizes) == row_to_repeat
        row = measure(job, name, sizes, problems if repeats else {})
        rows.append(row)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
            write_rows(job, rows)
        gc.collect()
    if job.context is not None:
        job.context.close()
    return rows


def rows_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"]
    except FileNotFoundError:
        return []


def write(job, rows, kind, more):
    args = job.args
    ours = {"absent": job.without} if job.context is None else {
        "version": job.stretto.version(), "rows": "fixed", "schedule": "auto"}
    with open(args.out + ".new", "w", encoding="utf-8") as file:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        json.dump({"benchmark": kind, "commit": args.commit or this_commit(), "date": today,
                   "machine": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "ranks": dist.get_world_size(), "data": "standard normal",
                   "rounds": args.rounds, "turn_ms": args.turn, "stretto": ours,
                   **more, "rows": rows}, file, indent=1)
        file.write("\n")
    os.replace(args.out + ".new", args.out)
