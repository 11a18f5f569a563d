#!/usr/bin/env python3
"""All three operators with PyTorch's tensors: run, verified, captured in a graph, and with changing rows.

    torchrun --nproc-per-node 2 python/examples/with_torch.py
"""

import os
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import stretto  # noqa: E402

M, N, K = 1024, 2048, 4096
MOST_ERROR = 5e-3  # relative; roundings of partial sums to bf16 stay well below


def expected(kind, a, b):
    """The operator in fp32, by PyTorch."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if kind == "ag-gemm":
        whole = torch.empty(a.shape[0] * ranks, a.shape[1], device="cuda", dtype=a.dtype)
        dist.all_gather_into_tensor(whole, a)
        return whole.float() @ b.float().t()
    total = a.float() @ b.float().t()
    dist.all_reduce(total)
    rows = total.shape[0] // ranks
    return total[rank * rows:][:rows] if kind == "gemm-rs" else total


def error_of(out, right):
    torch.cuda.synchronize()
    return ((out.float() - right).norm() / right.norm()).item()


def poison(out):
    """Before any rank's next run: of gemm-ar others write the result here."""
    out.fill_(float("nan"))
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()  # PyTorch's collectives have streams of their own


def demonstrate(context, kind, rows):
    normal = lambda name: torch.randn(  # noqa: E731
        operation.tensors[name].shape, device="cuda", dtype=torch.bfloat16)
    begin = time.monotonic()
    operation = stretto.Operation(context, kind, rows=rows, m=M, n=N, k=K)
    made_s = time.monotonic() - begin
    a, b = normal("a"), normal("b")
    result = torch.empty_like(normal("out"))
    right = expected(kind, a, b)
    torch.cuda.synchronize()
    poison(result)
    operation(a=a, b=b, out=result)
    operation.finish()
    errors = [error_of(result, right)]

    # Tensors of the next call lie elsewhere, as the allocator has it.
    again = torch.empty_like(result)
    poison(again)
    operation(a=a.clone(), b=b, out=again)
    operation.finish()
    errors.append(error_of(again, right))

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            operation(a=a, b=b, out=result)
    poison(result)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        start.record()
        graph.replay()
        stop.record()
    torch.cuda.synchronize()
    operation.finish()
    errors.append(error_of(result, right))
    time_us = start.elapsed_time(stop) * 100

    if rows == "bucket" and kind != "ag-gemm":  # half of the rows, of the same A
        half = M // 2
        right = expected(kind, a[:half], b)
        torch.cuda.synchronize()
        fewer = result[:right.shape[0]]
        operation(a=a[:half], b=b, out=fewer)
        operation.finish()
        errors.append(error_of(fewer, right))
    if context.rank == 0:
        print(f"{kind} {rows}: errors {', '.join(f'{one:.1e}' for one in errors)}; {time_us:.1f} us a run; "
              f"made in {made_s:.1f} s: {operation.schedule()}", flush=True)
    del graph
    torch.cuda.synchronize()
    operation.close()
    return max(errors)


def main():
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    torch.manual_seed(1234 + dist.get_rank())
    with stretto.Context() as context:
        worst = max(demonstrate(context, kind, rows)
                    for kind in ("ag-gemm", "gemm-rs", "gemm-ar") for rows in ("fixed", "bucket"))
    dist.destroy_process_group()
    if not worst <= MOST_ERROR:
        sys.exit(f"wrong: a relative error of {worst:.1e}")


if __name__ == "__main__":
    main()
