#!/usr/bin/env python3
"""Training with modules: a block whose rows are dealt to the ranks, compiled, against the same on one rank.

    python examples/python/02_training_step.py               # two processes, on any machine
    torchrun --nproc-per-node 2 examples/python/02_training_step.py
    mpirun -n 2 python examples/python/02_training_step.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import processes

import stretto.torch as st

ROWS, HIDDEN, WIDE, STEPS = 64, 64, 128, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, WIDE, bias=False), nn.Linear(WIDE, HIDDEN, bias=False)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def train(model, x, target, reduce=lambda loss: loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for _ in range(STEPS):
        loss = (model(x).float() - target.float()).square().sum() / ROWS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(reduce(loss.detach()).item())
    return losses


def block():
    torch.manual_seed(3)
    return Block().to(torch.bfloat16)


def run():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(4)
    x, target = (torch.randn(ROWS, HIDDEN, generator=generator).to(device, torch.bfloat16) for _ in range(2))
    right = train(block().to(device), x, target)

    model = block().to(device)
    model.up = st.ColumnParallelLinear.from_linear(model.up)  # gathers rows before the product
    model.down = st.RowParallelLinear.from_linear(model.down)  # scatters them behind it
    model = torch.compile(model, fullgraph=True, backend="aot_eager")

    def over_ranks(loss):
        dist.all_reduce(loss)
        return loss

    losses = train(model, x.chunk(ranks)[rank], target.chunk(ranks)[rank], over_ranks)
    if rank == 0:
        for step, (loss, other) in enumerate(zip(losses, right)):
            print(f"step {step}: loss {loss:.3f}, on one rank {other:.3f}")
        print(st.report())
    if not losses[-1] < losses[0] or any(abs(a - b) > 0.02 * b for a, b in zip(losses, right)):
        raise SystemExit(f"rank {rank}: losses {losses} are not those of one rank, {right}")


if __name__ == "__main__":
    processes.run(run, 2)
