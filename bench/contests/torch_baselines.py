#!/usr/bin/env python3
"""PyTorch's two paths for the fused operators, NCCL + matmul and AsyncTP, and Stretto's `auto` beside them.

    torchrun --nproc-per-node 4 bench/contests/torch_baselines.py --shapes FILE --out torch.json

A shapes file has one operator a line, as Stretto prints them: "ag-gemm m=4096 n=28672 k=8192"
(global sizes; '#' starts a comment). All contestants work on the same tensors, standard normal, in the same
processes, each in a CUDA graph of ten runs back to back, and take turns. A figure is the median over rounds of
the slowest rank's time of a graph behind another launch of it, with the 10th and 90th percentile. Results are compared
with an fp32 reference before they are timed and after the last round.

Rows that the ranks do not divide are padded for PyTorch, whose collectives take as many of each rank; Stretto takes
them as they are.

Stretto takes part where its Python binding is found (python/stretto; STRETTO_LIBRARY says where the library is), with
an operation of fixed rows. One contestant's error or time-out does not end the others; where it takes the GPU with
it, start torchrun with --max-restarts 5: a restarted job goes on without that contestant.

gemm-ar has no AsyncTP form; PyTorch's two-shot all-reduce on symmetric memory stands in its place.
"""

import argparse
import gc
import os
import pathlib
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

import torch  # noqa: E402

from bench.contests import torch_job  # noqa: E402
from bench.contests.torch_contestants import Operator, Stretto, figures, wait_for_gpu  # noqa: E402

OPERATORS = dict.fromkeys(("ag-gemm", "gemm-rs", "gemm-ar"), ("m", "n", "k"))


def make_stretto(job, op, sizes):
    made = Stretto(job.context, job.stretto.Operation, op, sizes)
    wait_for_gpu()
    return made


def tensors(job, name, sizes):
    op = Operator(name, **sizes, dtype=torch.bfloat16, group=job.group)
    reference = op.reference()
    wait_for_gpu()
    return op, reference


def measure(job, name, sizes, problems):
    row = {"operator": torch_job.operator_text(name, sizes)}
    contest = job.contest(row["operator"], problems)
    op, reference = contest.attempt("row", lambda: tensors(job, name, sizes)) or (None, None)
    if op is None:
        return {**row, "failed": contest.problems["row"]}
    contestants = {"gemm": job.contestant(op.gemm), "nccl": job.contestant(op.collective),
                   "sequential": job.contestant(op.sequential, reference=reference),
                   "fused": job.contestant(op.fused, reference=reference)}
    ours = None
    if job.context is not None:
        ours = contest.attempt("stretto", lambda: make_stretto(job, op, sizes))
    if ours is not None:
        contestants["stretto"] = job.contestant(ours.run, ours.operation.finish, op.without_padding(reference))
        row["stretto_schedule"] = ours.operation.schedule()
    job.take_turns(contest, contestants)
    for label, one in contestants.items():
        row.update(figures(label, one, contest.problems))
    if "stretto" in contest.problems:
        row["stretto_failed"] = contest.problems["stretto"]
    contestants.clear()
    del one  # graphs end before what they run
    gc.collect()
    if ours is not None:
        torch_job.close(contest, "stretto", ours.operation)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    torch_job.add_options(parser, rounds=20)
    args = parser.parse_args()
    shapes = torch_job.parse_shapes(args.shapes, OPERATORS)
    torch_job.run(torch_job.checked(args), shapes, measure, "torch")


if __name__ == "__main__":
    main()
