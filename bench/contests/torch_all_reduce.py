"""PyTorch's symmetric-memory all-reduces (one-shot, two-shot) and NCCL's, in captured graphs.

    python3 bench/contests/torch_all_reduce.py --ranks 4 --out FILE

Times are medians of the longest rank, a call, back to back in a graph of 20. bf16.
"""
import argparse
import datetime
import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import torch.multiprocessing as mp

CALLS = 20
ROUNDS = 30


def time_graph(work, device):
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(CALLS):
                work()
        times = []
        for _ in range(ROUNDS + 3):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.barrier()
            torch.cuda.synchronize()
            start.record(stream)
            graph.replay()
            stop.record(stream)
            stream.synchronize()
            times.append(start.elapsed_time(stop) * 1000 / CALLS)
    longest = torch.tensor(times[3:], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return statistics.median(longest.tolist())


def rank_main(rank, ranks, out, commit):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29513")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=device)
    group = dist.group.WORLD.group_name
    rows = []
    size = 2048
    while size <= 16 << 20:
        tensor = symm_mem.empty(size // 2, dtype=torch.bfloat16, device=device)
        tensor.normal_()
        symm_mem.rendezvous(tensor, group)
        row = {"bytes": size}
        ops = {
            "nccl": lambda: dist.all_reduce(tensor),
            "one_shot": lambda: torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", group),
            "two_shot": lambda: torch.ops.symm_mem.two_shot_all_reduce_(tensor, "sum", group),
        }
        for name, work in ops.items():
            if name == "one_shot" and size > 1 << 20:
                continue
            tensor.normal_()
            try:
                row[name] = time_graph(work, device)
            except RuntimeError as error:
                row[name + "_failed"] = str(error).splitlines()[0]
        rows.append(row)
        if rank == 0:
            print(row, flush=True)
        size *= 2
    if rank == 0 and out:
        with open(out, "w") as file:
            json.dump({"benchmark": "torch all-reduce", "torch": torch.__version__,
                       "machine": torch.cuda.get_device_name(), "commit": commit,
                       "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                       "ranks": ranks, "rows": rows},
                      file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", default="")
    parser.add_argument("--commit", default="unknown", help="recorded, of this script")
    options = parser.parse_args()
    mp.spawn(rank_main, args=(options.ranks, options.out, options.commit), nprocs=options.ranks)
