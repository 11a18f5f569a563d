#!/usr/bin/env python3
"""PyTorch's two paths for the fused operators: NCCL + matmul, and AsyncTP, both in CUDA graphs.

    torchrun --nproc-per-node 4 bench/torch_baselines.py --shapes FILE --out torch.json

A shapes file has one operator a line, as Stretto prints them: "ag-gemm m=4096 n=28672 k=8192"
(global sizes; '#' starts a comment). Inputs are standard normal. A graph holds ten runs back to
back; a figure is the median over rounds of the slowest rank's time, with the 10th and 90th
percentile. Results are compared with an fp32 reference before they are timed.

gemm-ar has no AsyncTP form; PyTorch's two-shot all-reduce on symmetric memory stands in its place.
"""

import argparse
import json
import os
import subprocess
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._symmetric_memory as symm_mem  # noqa: E402

RUNS_PER_GRAPH = 10
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


class Operator:
    """One operator's tensors and contestants on this rank."""

    def __init__(self, name, m, n, k, dtype, group):
        self.name, self.group = name, group
        self.ranks, rank = dist.get_world_size(), dist.get_rank()
        if m % self.ranks or n % self.ranks or k % self.ranks:
            raise ValueError(f"PyTorch's collectives need sizes that divide by {self.ranks}")
        torch.manual_seed(1234 + rank)
        normal = lambda *size: torch.randn(*size, device="cuda", dtype=dtype)  # noqa: E731
        if name == "ag-gemm":
            self.a, self.b = normal(m // self.ranks, k), normal(n // self.ranks, k)
            self.gathered = torch.empty(m, k, device="cuda", dtype=dtype)
            self.gathered.normal_()
            self.out = torch.empty(m, n // self.ranks, device="cuda", dtype=dtype)
        else:
            self.a, self.b = normal(m, k // self.ranks), normal(n, k // self.ranks)
            self.partial = torch.empty(m, n, device="cuda", dtype=dtype)
            self.out = torch.empty(m // self.ranks, n, device="cuda", dtype=dtype)
            if name == "gemm-ar":
                self.symmetric = symm_mem.empty(m, n, device="cuda", dtype=dtype)
                symm_mem.rendezvous(self.symmetric, group)

    def gemm(self):
        if self.name == "ag-gemm":
            torch.mm(self.gathered, self.b.t(), out=self.out)
        else:
            torch.mm(self.a, self.b.t(), out=self.partial)

    def collective(self):
        if self.name == "ag-gemm":
            dist.all_gather_into_tensor(self.gathered, self.a)
        elif self.name == "gemm-rs":
            dist.reduce_scatter_tensor(self.out, self.partial)
        else:
            dist.all_reduce(self.partial)

    def sequential(self):
        if self.name == "ag-gemm":
            self.collective()
            self.gemm()
            return self.out
        self.gemm()
        self.collective()
        return self.out if self.name == "gemm-rs" else self.partial

    def fused(self):
        if self.name == "ag-gemm":
            _, outputs = torch.ops.symm_mem.fused_all_gather_matmul(
                self.a, [self.b.t()], gather_dim=0, group_name=self.group)
            return outputs[0]
        if self.name == "gemm-rs":
            return torch.ops.symm_mem.fused_matmul_reduce_scatter(
                self.a, self.b.t(), "sum", scatter_dim=0, group_name=self.group)
        torch.mm(self.a, self.b.t(), out=self.symmetric)
        return torch.ops.symm_mem.two_shot_all_reduce_(self.symmetric, "sum", self.group)

    def reference(self):
        """fp32, by gathering what the other ranks hold; rows in pieces to bound memory."""
        if self.name == "ag-gemm":
            whole = torch.empty_like(self.gathered)
            dist.all_gather_into_tensor(whole, self.a)
            return whole.float() @ self.b.float().t()
        total = self.a.float() @ self.b.float().t()
        dist.all_reduce(total)
        if self.name == "gemm-rs":
            rows = total.shape[0] // self.ranks
            return total[dist.get_rank() * rows:][:rows]
        return total


def relative_error(result, reference):
    return ((result.float() - reference).norm() / reference.norm()).item()


def capture(run):
    """A graph of RUNS_PER_GRAPH runs; warm-up first, on the capturing stream's behalf."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS_PER_GRAPH):
            run()
    return graph


def replay_us(graph):
    """One replay's time for one run, the maximum over ranks."""
    dist.barrier()
    torch.cuda.synchronize()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    stop.record()
    torch.cuda.synchronize()
    slowest = torch.tensor([start.elapsed_time(stop) * 1000 / RUNS_PER_GRAPH], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def measure(name, m, n, k, dtype, rounds, group):
    op = Operator(name, m, n, k, dtype, group)
    reference = op.reference()
    contestants = {"gemm": op.gemm, "nccl": op.collective, "sequential": op.sequential,
                   "fused": op.fused}
    row = {"operator": f"{name} m={m} n={n} k={k} ranks={op.ranks} dtype=bf16"}
    for label in ("sequential", "fused"):
        row[f"{label}_error"] = relative_error(contestants[label](), reference)
    del reference
    graphs = {label: capture(run) for label, run in contestants.items()}
    times = {label: [] for label in graphs}
    for _ in range(rounds):
        for label, graph in graphs.items():  # in turns, so that drift meets all alike
            times[label].append(replay_us(graph))
    for label, values in times.items():
        values.sort()
        row[f"{label}_us"] = values[len(values) // 2]
        row[f"{label}_low_us"] = values[len(values) // 10]
        row[f"{label}_high_us"] = values[-1 - len(values) // 10]
    return row


def commit():
    result = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True, check=False, cwd=os.path.dirname(__file__) or ".")
    return result.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--commit", default=None, help="recorded; default: the checkout's")
    args = parser.parse_args()
    shapes = parse_shapes(args.shapes)
    if args.rounds < 1:
        sys.exit("--rounds must be at least 1")
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    group = dist.group.WORLD.group_name
    symm_mem.enable_symm_mem_for_group(group)
    rows = []
    for name, m, n, k in shapes:
        try:
            row = measure(name, m, n, k, torch.bfloat16, args.rounds, group)
        except (ValueError, RuntimeError) as error:
            row = {"operator": f"{name} m={m} n={n} k={k}", "failed": str(error).split("\n")[0]}
        rows.append(row)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
    if dist.get_rank() == 0:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"benchmark": "torch", "commit": args.commit or commit(),
                       "machine": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "ranks": dist.get_world_size(), "data": "standard normal",
                       "rows": rows}, file, indent=1)
            file.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
