"""Gradients on GPUs whose collectives run beside products."""

from unittest import mock

import torch
import torch.distributed as dist

import stretto.torch as st
from stretto.torch import _backward, _beside

from gpu_common import K, exact, integers, of_ranks, told_wrong


def _steps(group, rows):
    """By name: a step of this rank's leaves, and what their gradients are to be."""
    rank, ranks, total = group.rank, group.ranks, rows * group.ranks
    ws, every = of_ranks(integers, group, 401, 512, K), of_ranks(integers, group, 402, rows, K)
    whole, dys = integers(403, total, K), of_ranks(integers, group, 404, total, 512)
    sums = sum(dy.float() @ one.float() for dy, one in zip(dys, ws))
    yield ("column_matmul", st.column_matmul, (whole, ws[rank]), dys[rank],
           (sums, dys[rank].float().t() @ whole.float()))
    yield ("all_gather_matmul", st.all_gather_matmul, (every[rank], ws[rank]), dys[rank],
           (sums.chunk(ranks)[rank], dys[rank].float().t() @ torch.cat(every).float()))
    xs, own = of_ranks(integers, group, 405, total, K), of_ranks(integers, group, 406, rows, 512)
    dy = torch.cat(own).float()
    yield ("matmul_reduce_scatter", st.matmul_reduce_scatter, (xs[rank], ws[rank]), own[rank],
           (dy @ ws[rank].float(), dy.t() @ xs[rank].float()))


def check_gradients_beside(group):
    """Exact, twice, and from a CUDA graph with new inputs; of one rank nothing is exchanged."""
    in_graphs = dist.get_backend() == "nccl"
    with mock.patch.object(_backward, "FEWEST_OWN_ROWS", 16), mock.patch.multiple(
            _beside, SHORTEST_US=0, STEP=64, FLOPS_PER_US=1e6):  # products are cut
        for name, op, tensors, dy, right in _steps(group, 64):
            leaves = [one.clone().requires_grad_() for one in tensors]

            def step():
                return torch.autograd.grad(op(*leaves, group=group), leaves, dy)
            for turn in range(2):
                for one, wanted in zip(step(), right):
                    exact(f"{name}, call {turn}", one, wanted)
            if not in_graphs:
                continue
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = step()
            for turn in range(3):
                for one in made:
                    one.zero_()
                graph.replay()
                for one, wanted in zip(made, right):
                    exact(f"{name}, replay {turn}", one, wanted)
    beside = {op for op, reason in st.report().fallbacks if reason == _backward.BESIDE}
    expected = {"matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"} if group.ranks > 1 else set()
    if beside != expected:
        told_wrong(f"beside products ran {sorted(beside)}, not {sorted(expected)}")
