"""Mixtures of experts on GPUs."""

import torch
import torch.nn.functional as F

import stretto.torch as st

from gpu_common import K, close, generator, normal


def experts_of(x, ids, weights, gate, up, down):
    """In fp32, with all experts."""
    y = torch.zeros_like(x)
    for expert in range(gate.shape[0]):
        tokens, choices = (ids == expert).nonzero(as_tuple=True)
        rows = x[tokens]
        made = (F.silu(rows @ gate[expert].t()) * (rows @ up[expert].t())) @ down[expert].t()
        y = y.index_add(0, tokens, made * weights[tokens, choices, None])
    return y


def part_of(tensors, group, is_dealt):
    """This rank's tokens, and its experts or its part of each."""
    cuts = (0, 0, 0, *((0, 0, 0) if is_dealt else (1, 1, 2)))
    return [one.chunk(group.ranks, cut)[group.rank].clone(memory_format=torch.contiguous_format)
            for one, cut in zip(tensors, cuts)]


def check_experts(group):
    """Mixtures of experts: numbers, ids and weights of both types, ids of no expert, gradients, out, graphs."""
    tokens, experts, f, k = 96 * group.ranks, 8, 256, 2
    every = [normal(70, tokens, K), torch.rand(tokens, experts, device="cuda", generator=generator(71)).topk(k).indices,
             torch.rand(tokens, k, device="cuda", generator=generator(72)),
             *(normal(73 + i, experts, *shape, scale=0.04) for i, shape in enumerate(((f, K), (f, K), (K, f))))]
    every[1][3, 0] = -1
    wide = [one.clone().float().requires_grad_() if one.is_floating_point() else one for one in every]
    right = experts_of(*wide)
    right.square().sum().backward()
    for is_dealt in (True, False):
        what = f"experts {'dealt' if is_dealt else 'cut'}"
        mine, own = part_of(every, group, is_dealt), right.detach().chunk(group.ranks)[group.rank]
        for ids in (mine[1].int(), mine[1], mine[1]):  # the last one's call came before
            close(f"{what}, {ids.dtype}", st.moe(mine[0], ids, *mine[2:], group, expert_parallel=is_dealt), own)
        close(f"{what}, weights of x's type",
              st.moe(*mine[:2], mine[2].bfloat16(), *mine[3:], group, expert_parallel=is_dealt), own)
        mine[1] = mine[1].int()
        out = torch.empty_like(mine[0])
        st.moe(*mine, group, expert_parallel=is_dealt, out=out)
        close(f"{what}, out", out, own)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = st.moe(*mine, group, expert_parallel=is_dealt)
        for _ in range(3):
            mine[0].copy_(mine[0].roll(1, 0)), mine[1].copy_(mine[1].roll(1, 0)), mine[2].copy_(mine[2].roll(1, 0))
            own = own.roll(1, 0)
            graph.replay()
            close(f"{what}, a replay", captured, own)
        torch.cuda.synchronize()
        for one in mine:
            one.requires_grad_(one.is_floating_point())
        st.moe(*mine, group, expert_parallel=is_dealt).float().square().sum().backward()
        for name, one, other in zip(("x", "ids", "weights", "gate", "up", "down"), mine, part_of(
                [one.grad if one.is_floating_point() else one for one in wide], group, is_dealt)):
            if one.grad is not None:
                turned = other.roll(3, 0) if name in ("x", "weights") else other
                close(f"{what}, the gradient of {name}", one.grad, turned, 3e-2)
