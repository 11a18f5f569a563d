#!/usr/bin/env python3
"""A tensor-parallel MLP, as PyTorch has it and as Stretto has it: one line changes, the numbers do not.

    python examples/python/01_tensor_parallel_mlp.py         # four ranks as threads, on any machine
    torchrun --nproc-per-node 4 examples/python/01_tensor_parallel_mlp.py
    mpirun -n 4 python examples/python/01_tensor_parallel_mlp.py

Without GPUs Stretto's emulator executes the plan of all ranks, the plan that GPUs run.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import processes
import stretto
import stretto.torch as st

ROWS, HIDDEN, WIDE, RANKS = 64, 256, 512, 4


def weights(rank, ranks, device):
    """Gate and up [WIDE/R, HIDDEN], down [HIDDEN, WIDE/R]: every rank makes all, and takes its own."""
    generator = torch.Generator().manual_seed(1)
    make = lambda *shape: (torch.randn(*shape, generator=generator) / 16).to(device, torch.bfloat16)  # noqa: E731
    whole = make(WIDE, HIDDEN), make(WIDE, HIDDEN), make(HIDDEN, WIDE)
    return whole, (whole[0].chunk(ranks)[rank], whole[1].chunk(ranks)[rank],
                   whole[2].chunk(ranks, 1)[rank].contiguous())


def run(rank, ranks, group, device="cpu"):
    (all_gate, all_up, all_down), (gate, up, down) = weights(rank, ranks, device)
    x = torch.randn(ROWS, HIDDEN, generator=torch.Generator().manual_seed(2)).to(device, torch.bfloat16)
    own = x.chunk(ranks)[rank]  # sequence parallel: each rank has its rows

    # With PyTorch alone: x = all_gather(own); y = reduce_scatter((silu(x @ gate.T) * (x @ up.T)) @ down.T)
    y = st.mlp(own, [gate, up], down, group, sequence_parallel=True)

    right = (F.silu(x.float() @ all_gate.float().t()) * (x.float() @ all_up.float().t())) @ all_down.float().t()
    error = (y.float() - right.chunk(ranks)[rank]).abs().max() / right.abs().max()
    if not error < 1e-2:
        raise SystemExit(f"rank {rank}: wrong by {error:.1e}")
    return f"rank {rank}: {list(own.shape)} -> {list(y.shape)}, at most {error:.1e} from fp32 on one rank"


def main():
    device = processes.join()
    if device is not None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        told = [run(rank, ranks, None, device)]
        dist.destroy_process_group()
        if rank != 0:
            return
    else:
        ranks = RANKS
        told = st.run_threads(lambda group: run(group.rank, group.ranks, group), ranks)
    problems = stretto.check("mlp", m=ROWS, h=HIDDEN, f=WIDE, ranks=ranks, schedule="tiles")
    print(*told, sep="\n")
    print(f"the plan of {ranks} ranks is {'proved free of races and deadlocks' if not problems else problems}")
    print(st.report())


if __name__ == "__main__":
    main()
