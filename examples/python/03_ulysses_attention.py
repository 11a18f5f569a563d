#!/usr/bin/env python3
"""Attention over a sequence that is dealt to the ranks (Ulysses), against the same on one rank, gradients too.

Each product exchanges what it makes or takes: tokens to heads before the attention, heads to tokens behind it.

    python examples/python/03_ulysses_attention.py           # three processes, on any machine
    torchrun --nproc-per-node 2 examples/python/03_ulysses_attention.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import processes

import stretto.torch as st

BATCH, SEQUENCE, HEADS, WIDTH = 2, 20, 6, 16  # of each head
HIDDEN = HEADS * WIDTH


def attend(q, k, v):
    """[batch, sequence, some heads * width] each, of all tokens."""
    heads = (one.unflatten(-1, (-1, WIDTH)).transpose(1, 2) for one in (q, k, v))
    return F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)


def of_all_ranks(x, wq, wk, wv, wo):
    return F.linear(attend(*(F.linear(x, w) for w in (wq, wk, wv))), wo)


def of_own_tokens(x, wq, wk, wv, wo):
    """x [batch, own tokens, hidden]: every rank has the weights whole, and its own heads of q, k and v."""
    heads = (st.matmul_all_to_all(x, w, dim=1, rows=SEQUENCE) for w in (wq, wk, wv))
    return st.all_to_all_matmul(attend(*heads), wo, dim=1)


def run():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(5)
    x, target = (torch.randn(BATCH, SEQUENCE, HIDDEN, generator=generator).to(device) for _ in range(2))
    weights = [(torch.randn(HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5).to(device) for _ in range(4)]

    wide = [one.clone().requires_grad_() for one in weights]
    right = of_all_ranks(x, *wide)
    (right - target).square().sum().backward()

    each = -(-SEQUENCE // ranks)
    tokens = slice(rank * each, (rank + 1) * each)
    mine = [one.to(torch.bfloat16).requires_grad_() for one in weights]
    y = of_own_tokens(x[:, tokens].to(torch.bfloat16), *mine)
    (y.float() - target[:, tokens]).square().sum().backward()  # weights' gradients are of all tokens

    def error(got, expected):
        return ((got.float() - expected).norm() / expected.norm()).item()

    errors = [error(y.detach(), right.detach()[:, tokens]), *(error(a.grad, b.grad) for a, b in zip(mine, wide))]
    if rank == 0:
        print(f"rank 0: {list(x[:, tokens].shape)} -> {list(y.shape)}, errors of the result and of gradients: "
              f"{', '.join(f'{one:.1e}' for one in errors)}")
        print(st.report())
    if max(errors) > 2e-2:
        raise SystemExit(f"rank {rank}: this is not what one rank computes: {errors}")


if __name__ == "__main__":
    processes.run(run, 3)
