"""All-to-alls beside products, look-ups, and a graph of the user's own, on GPUs."""

import torch
import torch.nn.functional as F

import stretto.torch as st
from stretto.torch._columns import block_of

from gpu_common import K, close, exact, integers, normal


def own_columns(tensor, group):
    each = block_of(tensor.shape[-1], group.ranks, tensor.element_size())
    return tensor[..., group.rank * each:(group.rank + 1) * each]


def products(group):
    """There and back, of columns that ranks need not divide, with gradients."""
    rank, ranks = group.rank, group.ranks
    for rows, n in ((96, 768), (61, 1552)):
        x, w = integers(80, rows * ranks, K), integers(81, n, K)
        y, bias = x.float() @ w.float().t(), integers(89, n)
        for _ in range(3):  # the later calls came before
            mine = x.chunk(ranks)[rank].clone()
            exact("matmul_all_to_all", st.matmul_all_to_all(mine, w, group=group), own_columns(y, group))
            exact("its bias", st.matmul_all_to_all(mine, w, bias, group), own_columns(y + bias.float(), group))
        x, w, bias = integers(82, rows * ranks, n), integers(83, K, n), integers(89, K)
        y = (x.float() @ w.float().t()).chunk(ranks)[rank]
        for _ in range(3):
            mine = own_columns(x, group).contiguous()
            exact("all_to_all_matmul", st.all_to_all_matmul(mine, w, group=group), y)
            exact("its bias", st.all_to_all_matmul(mine, w, bias, group), y + bias.float())
    every = [normal(84, 64 * ranks, K), normal(85, 768, K, scale=0.05), normal(86, 768), normal(87, K, 768, scale=0.05)]
    wide = [one.float().requires_grad_() for one in every]
    right = F.linear(F.linear(*wide[:3]), wide[3])
    right.square().sum().backward()
    for what, needed in (("of x", (0,)), ("of all", range(4))):
        mine = [every[0].chunk(ranks)[rank].clone(), *(one.clone() for one in every[1:])]
        for index in needed:
            mine[index].requires_grad_()
        y = st.all_to_all_matmul(st.matmul_all_to_all(*mine[:3], group), mine[3], group=group)
        close(f"there and back, with gradients {what}", y, right.detach().chunk(ranks)[rank], 2e-2)
        y.float().square().sum().backward()
        for index in needed:
            grad = wide[index].grad
            close(f"gradients {what}: {index}", mine[index].grad, grad.chunk(ranks)[rank] if index == 0 else grad, 4e-2)


def look_ups(group):
    rank, ranks = group.rank, group.ranks
    for tables, d, kind in ((4 * ranks, 64, torch.int32), (4 * ranks - 1, 10, torch.int64)):
        each = -(-tables // ranks)
        own = slice(rank * each, min((rank + 1) * each, tables))
        every = normal(90, tables, 500, d)
        ids = torch.randint(-1, 500, (61, tables, 7), device="cuda", generator=torch.Generator("cuda").manual_seed(91))
        wide = every.float().requires_grad_()
        picked = wide[torch.arange(tables, device="cuda").view(1, -1, 1), ids.clamp(min=0)]
        is_row = (ids >= 0).unsqueeze(-1)
        for mode in ("sum", "mean"):
            right = (picked * is_row).sum(2) / (is_row.sum(2).clamp(min=1) if mode == "mean" else 1)
            mine = every[own].clone().requires_grad_()
            bags = -(-61 // ranks)
            for _ in range(2):
                got = st.embedding_all_to_all(ids[:, own].to(kind), mine, group, mode=mode, num_tables=tables)
                close(f"{mode} of {tables} tables", got, right.detach()[rank * bags:(rank + 1) * bags])
            got.float().sum().backward()
            expected, = torch.autograd.grad(right.sum(), wide, retain_graph=True)
            close(f"{mode}: the gradient of {tables} tables", mine.grad, expected[own])


# Two products and a norm, as nobody ships them.
OWN = """\
graph own m h f
input tokens [m, h] rows
input first [f, h] rows
input second [h, f] cols
input scale [1, h] whole
p = gemm tokens first
a = silu p
q = gemm a second
normed = norm q scale eps=1e-05
output normed rows
"""


def own_graph(group):
    rank, ranks = group.rank, group.ranks
    rows, inner = 64 * ranks, 256 * ranks
    tokens, first = normal(94, rows, K), normal(95, inner, K, scale=0.05)
    second, scale = normal(96, K, inner, scale=0.05), normal(97, 1, K)
    q = F.silu(tokens.float() @ first.float().t()) @ second.float().t()
    right = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-5) * scale.float()
    for _ in range(3):
        made = st.run_graph(OWN, {"tokens": tokens.chunk(ranks)[rank], "first": first.chunk(ranks)[rank],
                                  "second": second.chunk(ranks, 1)[rank], "scale": scale}, group, m=rows, h=K, f=inner)
        close("a graph of the user's own", made["normed"], right.chunk(ranks)[rank], 2e-2)


def captured(group):
    x, w = normal(92, 64, K), normal(93, 768, K, scale=0.05)
    hidden = st.matmul_all_to_all(x, w, group=group)
    back = w.t().contiguous()
    st.all_to_all_matmul(hidden, back, group=group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = st.all_to_all_matmul(st.matmul_all_to_all(x, w, group=group), back, group=group)
    for turn in range(3):
        x.copy_(x.roll(1, 0))
        graph.replay()
        close(f"replay {turn}", y, x.float() @ w.float().t() @ w.float(), 2e-2)
    torch.cuda.synchronize()


def check_exchanges(group):
    """Numbers, gradients, graphs."""
    products(group)
    look_ups(group)
    own_graph(group)
    captured(group)
