"""What eager calls take of the host."""

import itertools
import statistics
import time

import torch
import torch.nn.functional as F

import stretto.torch as st

from stretto.torch import _records

import gpu_common

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "i32": torch.int32}
# Of these also with a gradient.
GRADED = ("matmul_all_reduce", "all_gather_matmul", "mlp", "PyTorch's F.linear")


def calls_of(group, normal):
    """Calls by name, and the tensor whose gradient they may have. normal(seed, *shape) makes tensors."""
    x, w, g, scale = normal(1, 16, 512), normal(2, 512, 512), normal(3, 16, 512), normal(4, 512)
    out, parts, experts = torch.empty_like(x), list(w.split([128, 384])), [normal(5, 4, 512, 512) for _ in range(3)]
    router = normal(6, 4, 512)
    ids, weights = (torch.zeros(16, 2, device=x.device, dtype=torch.int32),
                    torch.ones(16, 2, device=x.device, dtype=torch.float32))
    others = itertools.cycle([torch.empty_like(x) for _ in range(400)])  # more than tables are kept for
    return {"matmul_all_reduce": lambda: st.matmul_all_reduce(x, w, group=group),
            "all_gather_matmul": lambda: st.all_gather_matmul(x, w, group=group),
            "matmul_reduce_scatter": lambda: st.matmul_reduce_scatter(x, w, group=group),
            "add_rms_norm": lambda: st.matmul_all_reduce_add_rms_norm(x, w, g, scale, 1e-6, group),
            "mlp": lambda: st.mlp(x, [w, w], w, group),
            "moe": lambda: st.moe(x, ids, weights, *experts, group),
            "moe_with_router": lambda: st.moe_with_router(x, router, *experts, 2, group),
            "matmul_all_to_all": lambda: st.matmul_all_to_all(x, w, group=group),
            "PyTorch's F.linear": lambda: F.linear(x, w),
            "matmul_all_reduce with out": lambda: st.matmul_all_reduce(x, w, group=group, out=out),
            "matmul_all_reduce with a bias": lambda: st.matmul_all_reduce(x, w, scale, group),
            "matmul_all_to_all with a bias": lambda: st.matmul_all_to_all(x, w, scale, group),
            "all_gather_matmul of two weights": lambda: st.all_gather_matmul(x, parts, group=group),
            "matmul_all_reduce, new addresses": lambda: st.matmul_all_reduce(next(others), w, group=group),
            "F.linear, new addresses": lambda: F.linear(next(others), w)}, w


def plans():
    """Of each operator whose calls came again: the library's operation of the last kind of them, and its rows."""
    kept = {record.op: record._kept[-1][0] for record in _records._records.values() if record._kept}
    return {op: (operation, 16 * operation._context.ranks if operation.rows == "bucket" else operation.max_rows)
            for op, operation in kept.items()}


def run_of(operation, rows, device):
    """The library's part of a call, with tensors of its own."""
    tensors = {name: torch.zeros(info.shape, device=device, dtype=DTYPES[info.dtype])
               for name, info in operation.tensors_of(rows).items()}
    return lambda: operation.run(tensors, rows)


def costs(group, device, normal, measure):
    """By name, what measure() says of calls, and of what the library does of them."""
    _records.forget()  # calls of other tests
    calls, leaf = calls_of(group, normal)
    with torch.no_grad():
        told = [(name, measure(call)) for name, call in calls.items()]
    leaf.requires_grad_()
    told += [(f"{name} with a gradient", measure(calls[name])) for name in GRADED]
    return told + [(f"Operation.run of {op}", measure(run_of(*plan, device))) for op, plan in plans().items()]


def host_us(call, runs=100, turns=3):
    """What a call takes of the host while the GPU is behind: the middle turn's mean, the middle call's, and how many
    calls took five times as long as that one. A mean far above the middle is of few calls that waited for something.
    """
    for _ in range(4):
        call()
    means, took = [], []
    for _ in range(turns):
        torch.cuda.synchronize()
        torch.cuda._sleep(100_000_000)
        stamps = [time.perf_counter()]
        for _ in range(runs):
            call()
            stamps.append(time.perf_counter())
        means.append((stamps[-1] - stamps[0]) * 1e6 / runs)
        took += [(end - begin) * 1e6 for begin, end in zip(stamps, stamps[1:])]
    torch.cuda.synchronize()
    middle = statistics.median(took)
    return statistics.median(means), middle, sum(one > 5 * middle for one in took)


def host_costs(group):
    return costs(group, "cuda", gpu_common.normal, host_us)
