"""Mixtures of experts on GPUs."""

import torch
import torch.nn.functional as F

import stretto.torch as st

from gpu_common import K, close, generator, normal, told_wrong


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


def check_whole_tokens(group):
    """Experts cut over ranks that have all tokens: numbers of one rank on every rank, gradients, out, graphs."""
    tokens, experts, f, k = 72, 8, 64 * group.ranks, 2
    every = [normal(90, tokens, K), torch.rand(tokens, experts, device="cuda", generator=generator(91)).topk(k).indices,
             torch.rand(tokens, k, device="cuda", generator=generator(92)),
             *(normal(93 + i, experts, *shape, scale=0.04) for i, shape in enumerate(((f, K), (f, K), (K, f))))]
    every[1][3, 0] = -1
    wide = [one.clone().float().requires_grad_() if one.is_floating_point() else one for one in every]
    right = experts_of(*wide)
    right.square().sum().backward()

    def mine_of(all_of_them):
        return [one.clone() for one in all_of_them[:3]] + part_of(all_of_them, group, False)[3:]

    what, mine = "experts with all tokens", mine_of(every)
    for _ in range(2):  # the second call came before
        close(what, st.moe(*mine, group, sequence_parallel=False), right.detach())
    out = torch.empty_like(mine[0])
    st.moe(*mine, group, sequence_parallel=False, out=out)
    close(f"{what}, out", out, right.detach())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = st.moe(*mine, group, sequence_parallel=False)
    for turn in range(1, 4):
        for one, whole in zip(mine[:3], every):
            one.copy_(whole.roll(turn, 0))
        graph.replay()
        close(f"{what}, a replay", captured, right.detach().roll(turn, 0))
    torch.cuda.synchronize()
    mine = mine_of(every)
    for one in mine:
        one.requires_grad_(one.is_floating_point())
    st.moe(*mine, group, sequence_parallel=False).float().square().sum().backward()
    for name, one, other in zip(("x", "ids", "weights", "gate", "up", "down"), mine, mine_of(
            [one.grad if one.is_floating_point() else one for one in wide])):
        if one.grad is not None:
            close(f"{what}, the gradient of {name}", one.grad, other, 3e-2)


def routed(x, router, bias, gate, up, down, k, groups, best):
    """DeepSeek's rule in fp32, with all experts: y, ids and weights; without a bias a softmax of the highest."""
    scores = x @ router.t()
    if bias is None:
        weights, ids = scores.topk(k)
        weights = weights.softmax(-1)
    else:
        keys = scores.sigmoid() + bias
        parts = keys.unflatten(-1, (groups, -1))
        kept = torch.zeros_like(parts[..., 0]).scatter(1, parts.topk(2).values.sum(-1).topk(best).indices, 1)
        ids = parts.masked_fill(kept[..., None] == 0, -torch.inf).flatten(1).topk(k).indices
        weights = scores.sigmoid().gather(1, ids)
        weights = weights / weights.sum(-1, keepdim=True) * 2.5
    return experts_of(x, ids, weights, gate, up, down), ids, weights


def check_routers(group):
    """Routers in the plan of their experts: rules, tokens that ranks do not divide, NaNs, gradients, out, graphs."""
    tokens, experts, f, k = 96 * group.ranks - group.ranks + 1, 16, 256, 3
    every = [normal(80, tokens, K), normal(81, experts, K, scale=0.04),
             *(normal(82 + i, experts, *shape, scale=0.04) for i, shape in enumerate(((f, K), (f, K), (K, f))))]
    bias = normal(85, experts, scale=0.1).float()
    block = -(-tokens // group.ranks)

    def own(one):
        return one[block * group.rank:][:block].clone()
    in_groups = {"scores": "sigmoid", "bias": bias, "groups": 4, "best": 2, "scale": 2.5}
    for is_dealt, more in ((True, {}), (False, in_groups), (True, in_groups)):
        what = f"a router of experts {'dealt' if is_dealt else 'cut'}{', groups' if more else ''}"
        wide = [one.clone().float().requires_grad_() for one in every]
        y, ids, weights = routed(wide[0], wide[1], more.get("bias"), *wide[2:], k, 4, 2)
        (y.square().sum() + weights.square().sum()).backward()
        cuts = (0, 0, 0) if is_dealt else (1, 1, 2)
        mine = [own(every[0]), every[1].clone(), *(one.chunk(group.ranks, cut)[group.rank].contiguous()
                                                   for one, cut in zip(every[2:], cuts))]
        given = {"group": group, "expert_parallel": is_dealt, "rows": tokens, **more}

        def right_are(made, turn, which):
            # Scores are added up in another order here: a choice between two that are all but equal may differ.
            same = (made[1].long() == own(ids.roll(turn, 0))).all(1)
            if same.float().mean() < 0.97:
                told_wrong(f"{which}: {int((~same).sum())} of {len(same)} tokens chose otherwise")
            close(f"{which}, sums", made[0][same], own(y.detach().roll(turn, 0))[same])
            close(f"{which}, weights", made[2][same], own(weights.detach().roll(turn, 0))[same])
        for _ in range(2):  # the second one's may come again
            right_are(st.moe_with_router(*mine, k, **given), 0, what)
        if group.ranks == 1:
            del given["rows"]
            for _ in range(3):
                right_are(st.moe_with_router(*mine, k, **given), 0, f"{what}, again")
        out = torch.empty_like(mine[0]), *(torch.empty(len(mine[0]), k, device="cuda", dtype=one)
                                           for one in (torch.int32, torch.float32))
        right_are(st.moe_with_router(*mine, k, **given, out=out), 0, f"{what}, out")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = st.moe_with_router(*mine, k, **given)
        for turn in range(1, 4):
            mine[0].copy_(own(every[0].roll(turn, 0)))
            graph.replay()
            right_are(captured, turn, f"{what}, a replay")
        torch.cuda.synchronize()
        mine[0].copy_(own(every[0]))
        mine[0][5, 7] = float("nan")
        broken = st.moe_with_router(*mine, k, **given)
        if broken[1][5].tolist() != [-2] * k or broken[0][5].any() or broken[2][5].any():
            told_wrong(f"{what}: a token with a NaN chose {broken[1][5].tolist()}")
        mine[0].copy_(own(every[0]))
        for one in mine:
            one.requires_grad_()
        y, _, weights = st.moe_with_router(*mine, k, **given)
        (y.float().square().sum() + weights.square().sum()).backward()
        rights = [own(wide[0].grad), wide[1].grad, *(one.grad.chunk(group.ranks, cut)[group.rank]
                                                     for one, cut in zip(wide[2:], cuts))]
        for name, one, right in zip(("x", "the router", "gate", "up", "down"), mine, rights):
            close(f"{what}, the gradient of {name}", one.grad, right, 5e-2)
