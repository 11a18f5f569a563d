"""What takes turns beside PyTorch: an operator's tensors, PyTorch's paths and Stretto's on them, and how one of them is
verified and timed."""

import math
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from bench.contests.contest import Lost

RUNS_PER_GRAPH = 10
MOST_ERROR = 5e-3  # relative: partial sums rounded to bf16 stay well below, a wrong tile of thousands above
MOST_WAIT_S = 60  # for the GPU; a contestant that takes longer has hung


class Operator:
    """One operator's tensors and contestants on this rank. Rows are padded so that the ranks divide them where a
    collective takes as many of each; of each rank's, the real ones come first."""

    def __init__(self, name, m, n, k, dtype, group):
        self.name, self.group = name, group
        self.ranks, rank = dist.get_world_size(), dist.get_rank()
        if n % self.ranks or k % self.ranks:
            raise ValueError(f"PyTorch's collectives need columns that divide by {self.ranks}")
        each = -(-m // self.ranks)
        self.is_padded = name != "gemm-ar" and each * self.ranks != m
        owned = [m // self.ranks + (one < m % self.ranks) for one in range(self.ranks)]
        self.own = owned[rank]
        if self.is_padded:
            self.real = torch.cat([torch.arange(each * one, each * one + count) for one, count in enumerate(owned)])
            self.real = self.real.cuda()
            m = each * self.ranks
        torch.manual_seed(1234 + rank)
        normal = lambda *size: torch.randn(*size, device="cuda", dtype=dtype)  # noqa: E731
        if name == "ag-gemm":
            self.a, self.b = normal(each, k), normal(n // self.ranks, k)
            self.gathered = torch.empty(m, k, device="cuda", dtype=dtype)
            self.gathered.normal_()
            self.out = torch.empty(m, n // self.ranks, device="cuda", dtype=dtype)
        else:
            self.a, self.b = normal(m, k // self.ranks), normal(n, k // self.ranks)
            self.partial = torch.empty(m, n, device="cuda", dtype=dtype)
            self.out = torch.empty(each, n, device="cuda", dtype=dtype)
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
                self.a, [self.b.t()], gather_dim=0, group_name=self.group, return_A=False)
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

    def without_padding(self, result):
        """Of a result of padded rows, those of this rank that are real."""
        if not self.is_padded:
            return result
        return result[self.real] if self.name == "ag-gemm" else result[:self.own]

    def tensors(self):
        """By the names that Stretto has for them, without padding."""
        out = torch.empty_like(self.partial) if self.name == "gemm-ar" else self.out
        if not self.is_padded:
            return {"a": self.a, "b": self.b, "out": out}
        if self.name == "ag-gemm":
            return {"a": self.a[:self.own], "b": self.b, "out": out[:len(self.real)]}
        return {"a": self.a[self.real], "b": self.b, "out": out[:self.own]}


class Stretto:
    """Stretto's operation on an Operator's tensors."""

    def __init__(self, context, operation_type, op, sizes):
        self.operation = operation_type(context, op.name, rows="fixed", **sizes)
        self.tensors = op.tensors()
        self.out = self.tensors["out"]

    def run(self):
        self.operation.run(self.tensors)
        return self.out


def wait_for_gpu():
    """For what the current stream has. An event and a deadline: a hung kernel must not keep the process."""
    event = torch.cuda.Event()
    event.record()
    end = time.monotonic() + MOST_WAIT_S
    while not event.query():
        if time.monotonic() > end:
            raise Lost(f"the GPU did not come to an end within {MOST_WAIT_S} s")
        time.sleep(50e-6)


def meet():
    """All ranks' GPUs are here."""
    dist.all_reduce(torch.zeros(1, device="cuda"))
    wait_for_gpu()


def relative_error(result, reference):
    if reference.numel() == 0:  # of fewer rows than ranks
        return 0.0
    return ((result.float() - reference).norm() / reference.norm()).item()


def slowest_us(run):
    """Of one run outside a graph, on the rank that takes longest."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    wait_for_gpu()
    took = torch.tensor([start.elapsed_time(stop) * 1000], device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    wait_for_gpu()
    return took.tolist()[0]


def fewer_runs(graph_us, run_us):
    """Of a graph that is to take so long at most: an even number, for operations that alternate."""
    return max(2, min(RUNS_PER_GRAPH, int(graph_us / max(run_us, 1)) // 2 * 2))


class Contestant:
    """What takes turns: run() enqueues one run and returns its result, settle() hears of runs' errors.

    look(result)  what of a result is compared with `reference`
    graph_us      how long a graph may take: it has fewer runs then, at least two; 0: RUNS_PER_GRAPH always
    """

    def __init__(self, run, settle=lambda: None, reference=None, turn_ms=0, most_error=MOST_ERROR,
                 look=lambda result: result, graph_us=0):
        self.run, self.settle, self.reference = run, settle, reference
        self.turn_ms, self.most_error, self.look, self.graph_us = turn_ms, most_error, look, graph_us
        self.launches = 0  # in half a turn; 0: not known
        self.graph = self.result = None
        self.runs = RUNS_PER_GRAPH
        self.error = 0.0
        self.times = []

    def prepare(self):
        if self.reference is not None:
            first = self.run()
            meet()
            first.fill_(float("nan"))  # what another contestant left there may be right
            meet()
        self.verify(self.run())
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        meet()
        self.settle()
        if self.graph_us > 0:
            self.runs = fewer_runs(self.graph_us, slowest_us(self.run))
            self.settle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.runs):
                self.result = self.run()
        self.graph = graph

    def verify(self, result):
        wait_for_gpu()
        self.settle()
        if self.reference is None:
            return
        self.error = max(self.error, relative_error(self.look(result), self.reference))
        if not self.error <= self.most_error:
            raise RuntimeError(f"wrong results: a relative error of {self.error:.1e}")

    def verify_graph(self):
        self.result.fill_(float("nan"))
        meet()
        self.graph.replay()
        self.verify(self.result)

    def take_turn(self):
        """Times launches of a graph behind as many that bring the ranks together."""
        if self.launches == 0:
            self.launches = 1
            if self.turn_ms > 0:
                slowest = torch.tensor([self.time_ms()], device="cuda")
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                wait_for_gpu()
                self.launches = max(1, math.ceil(self.turn_ms / 2 / slowest.tolist()[0]))
        self.times.append(self.time_ms() * 1000 / self.runs)

    def time_ms(self):
        """Of one launch in the second half of a turn."""
        meet()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(self.launches):
            self.graph.replay()
        start.record()
        for _ in range(self.launches):
            self.graph.replay()
        stop.record()
        wait_for_gpu()
        self.settle()
        return start.elapsed_time(stop) / self.launches

    def take_slowest(self):
        """The times are then those of the slowest rank in each round."""
        slowest = torch.tensor(self.times, device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        wait_for_gpu()
        self.times = slowest.tolist()


def figures(label, contestant, problems):
    if label in problems:
        return {f"{label}_failed": problems[label]}
    times = sorted(contestant.times)
    found = {f"{label}_us": times[len(times) // 2], f"{label}_low_us": times[len(times) // 10],
             f"{label}_high_us": times[-1 - len(times) // 10]}
    if contestant.reference is not None:
        found[f"{label}_error"] = contestant.error
    return found
