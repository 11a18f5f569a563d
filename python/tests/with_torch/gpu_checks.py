"""What on_gpus.py asks of stretto.torch. Every rank makes all ranks' tensors: what is right takes no collective."""

import torch
import torch.nn.functional as F

import stretto.torch as st

from gpu_checks_ahead import check_rooms
from gpu_checks_again import check_again, check_again_otherwise, check_guards, check_library, check_shared_results
from gpu_checks_exchanges import check_exchanges
from gpu_checks_experts import check_experts, check_routers, check_whole_tokens
from gpu_checks_neighbours import check_beside_nccl
from gpu_checks_training import check_gradients_beside
from gpu_common import K, close, exact, integers, normal, of_ranks, products, told_wrong


def check_integers(group):
    rank, ranks = group.rank, group.ranks
    for dtype in (torch.bfloat16, torch.float16):
        ws = of_ranks(integers, group, 1, 512, K, dtype=dtype)
        for rows in (1, 3, 16, 100, 256):
            xs = of_ranks(integers, group, 2 + rows, rows, K, dtype=dtype)
            exact("all_gather_matmul", st.all_gather_matmul(xs[rank], ws[rank], group=group),
                  torch.cat(xs).float() @ ws[rank].float().t())
            exact("matmul_all_reduce", st.matmul_all_reduce(xs[rank], ws[rank], group=group), products(xs, ws))
            xs = of_ranks(integers, group, 3 + rows, rows * ranks, K, dtype=dtype)
            exact("matmul_reduce_scatter", st.matmul_reduce_scatter(xs[rank], ws[rank], group=group),
                  products(xs, ws).chunk(ranks)[rank])


def check_random(group):
    rank = group.rank
    for rows, n, k in ((1000, 512, 1024), (2048, 1024, 1024)):
        xs, ws = of_ranks(normal, group, 4, rows, k), of_ranks(normal, group, 5, n, k, scale=k ** -0.5)
        bias = normal(6 + rank, n)
        close("all_gather_matmul", st.all_gather_matmul(xs[rank], ws[rank], bias, group),
              F.linear(torch.cat(xs).float(), ws[rank].float(), bias.float()))
        close("matmul_all_reduce", st.matmul_all_reduce(xs[rank], ws[rank], bias=normal(6, n), group=group),
              products(xs, ws) + normal(6, n).float())
    x, ws = normal(7, 64, K), [normal(8, 256, K), normal(9, 128, K)]
    for got, w in zip(st.all_gather_matmul(x, ws, group=group), ws):
        close("one of several weights", got, x.repeat(group.ranks, 1).float() @ w.float().t())


def mlp_of(xs, gates, ups, downs):
    """Every rank's sum of an MLP in fp32."""
    whole = torch.cat(xs).float()
    return sum((F.silu(whole @ gate.float().t()) * (whole @ up.float().t())) @ down.float().t()
               for gate, up, down in zip(gates, ups, downs))


def check_mlp(group):
    rank, ranks = group.rank, group.ranks
    xs = of_ranks(normal, group, 10, 128, 1024)
    gates, ups, downs = (of_ranks(normal, group, seed, 1024, 1024, scale=0.03) for seed in (11, 12, 13))
    own = gates[rank], ups[rank]
    close("mlp by rows", st.mlp(xs[rank], own, downs[rank], group, sequence_parallel=True),
          mlp_of(xs, gates, ups, downs).chunk(ranks)[rank])
    close("mlp", st.mlp(xs[0], own, downs[rank], group), mlp_of(xs[:1], gates, ups, downs))


def check_norm(group):
    xs, downs = of_ranks(normal, group, 14, 128, 1024), of_ranks(normal, group, 13, 1024, 1024, scale=0.03)
    residual, scale = normal(15, 128, 1024), normal(16, 1024)
    total = products(xs, downs) + residual.float()
    normed, s = st.matmul_all_reduce_add_rms_norm(xs[group.rank], downs[group.rank], residual, scale, 1e-6, group)
    close("the sum", s, total)
    close("its norm", normed, total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * scale.float())


def check_shapes(group):
    """Leading dimensions, rows that ranks do not divide, slices of larger tensors, out."""
    rank, ranks, w = group.rank, group.ranks, normal(20, 512, K, scale=0.05)
    xs = of_ranks(normal, group, 21, 4, 64, K)
    close("dim=1", st.all_gather_matmul(xs[rank], w, group=group, dim=1), torch.cat(xs, 1).float() @ w.float().t())
    total = 64 * ranks - 1
    xs = of_ranks(normal, group, 22, 64, K)
    xs[-1] = xs[-1][:63]
    y = st.all_gather_matmul(xs[rank], w, group=group, rows=total)
    close("uneven rows", y, torch.cat(xs).float() @ w.float().t())
    z = st.matmul_reduce_scatter(y, w, group=group)
    close("uneven rows back", z, (ranks * y.float() @ w.float().t())[rank * 64:][:64])
    out = torch.empty(64, 512, device="cuda", dtype=torch.bfloat16)
    wide = normal(23, 64, 2 * K)
    st.matmul_all_reduce(wide[:, K:], w, group=group, out=out)
    close("out, of a slice", out, ranks * wide[:, K:].float() @ w.float().t())


def layer(x, up, down, group):
    return st.matmul_reduce_scatter(F.silu(st.all_gather_matmul(x, up, group=group)), down, group=group)


def layer_tensors(group, seed=30):
    """This rank's x, up, down; and the same of all ranks."""
    every = (of_ranks(normal, group, seed, 128, K), of_ranks(normal, group, seed + 1, 512, K, scale=0.04),
             of_ranks(normal, group, seed + 2, K, 512, scale=0.04))
    return [one[group.rank] for one in every], every


def layer_right(every):
    """In fp32: the layer's sum of all ranks, by their tensors."""
    xs, ups, downs = every
    whole = torch.cat(xs)
    return sum(F.silu(whole @ up.t()) @ down.t() for up, down in zip(ups, downs))


def check_gradients(group):
    rank = group.rank
    mine, every = layer_tensors(group)
    mine = [one.requires_grad_() for one in mine]
    layer(*mine, group).float().square().sum().backward()
    wide = [[one.detach().float().requires_grad_() for one in ones] for ones in every]
    layer_right(wide).square().sum().backward()
    for name, one, right in zip(("x", "up", "down"), mine, wide):
        close(f"the gradient of {name}", one.grad, right[rank].grad, 2e-2)
    xs, ups = (of_ranks(normal, group, seed, *shape, scale=0.1) for seed, shape in ((33, (64, K)), (34, (512, K))))
    x, up = xs[0].requires_grad_(), ups[rank].requires_grad_()
    st.column_matmul(x, up, group=group).float().sum().backward()
    close("of what all ranks have", x.grad, sum(one.detach().float().sum(0) for one in ups).expand(64, K), 2e-2)


def check_cuda_graphs(group):
    (x, up, down), _ = layer_tensors(group)
    layer(x, up, down, group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(layer(x, up, down, group), up, down, group)
    for turn in range(3):
        x.copy_(layer_tensors(group, 40 + turn)[0][0])
        graph.replay()
        got = y.clone()  # the eager calls between replays are of the same operations
        exact("a replay beside eager calls", got, layer(layer(x, up, down, group), up, down, group))
    torch.cuda.synchronize()


def check_drop_in(group):
    rank, ranks = group.rank, group.ranks
    xs, ws = of_ranks(normal, group, 50, 128 * ranks, K), of_ranks(normal, group, 51, 512, K, scale=0.04)
    x, w, ops = xs[rank], ws[rank], torch.ops.symm_mem
    st.reset_report()
    st.enable_symm_mem(return_gathered=False)
    try:
        y = ops.fused_matmul_reduce_scatter(x, w.t(), "sum", 0, group.name)
        close("fused_matmul_reduce_scatter", y, products(xs, ws).chunk(ranks)[rank])
        _, (z,) = ops.fused_all_gather_matmul(x, [w.t()], 0, group.name)
        close("fused_all_gather_matmul", z, torch.cat(xs).float() @ w.float().t())
    finally:
        st.disable_symm_mem()
    served = st.report().served
    for name in ("fused_matmul_reduce_scatter", "fused_all_gather_matmul"):
        if served.get(f"symm_mem.{name}") != 1:
            told_wrong(f"{name} was not served: {st.report()}")


def check_modules(group):
    """An MLP of Hugging Face's names, dealt by parallelize(), forward and backward."""
    torch.manual_seed(60)
    whole = torch.nn.ModuleDict({name: torch.nn.Linear(*shape, bias=False) for name, shape in (
        ("gate_proj", (K, 1024)), ("up_proj", (K, 1024)), ("down_proj", (1024, K)))}).cuda().bfloat16()
    parts = [whole[name] for name in whole]
    dealt = st.ParallelMLP.from_linears(*parts, group=group.name, sequence_parallel=False)
    x = normal(61, 128, K)
    y = dealt(x)
    gate, up, down = (one.weight.float() for one in parts)
    close("ParallelMLP", y, (F.silu(x.float() @ gate.t()) * (x.float() @ up.t())) @ down.t())
    y.float().square().sum().backward()
    right = (F.silu(x.float() @ gate.t()) * (x.float() @ up.t()))
    close("its gradient", dealt.down_proj.weight.grad,
          (2 * y.float().t() @ right).chunk(group.ranks, 1)[group.rank], 2e-2)


def check_uneven(group):
    """Layers of a size that ranks do not divide, with all rows and with own ones, forward and backward."""
    torch.manual_seed(62)
    size = 509
    wide, narrow = (torch.nn.Linear(*shape).cuda().bfloat16() for shape in ((K, size), (size, K)))
    x = normal(63, 16 * group.ranks, K)
    made = x.float() @ wide.weight.float().t() + wide.bias.float()
    right = made @ narrow.weight.float().t() + narrow.bias.float()
    for shared in (True, False):
        what = f"uneven layers of {'own' if shared else 'all'} rows"
        up = st.ColumnParallelLinear.from_linear(wide, group.name, sequence_parallel=shared)
        down = st.RowParallelLinear.from_linear(narrow, group.name, sequence_parallel=shared)
        y = down(up(x.chunk(group.ranks)[group.rank] if shared else x))
        close(what, y, right.chunk(group.ranks)[group.rank] if shared else right)
        y.float().square().sum().backward()
        slope = down.cuts["weight"].own(2 * right.t() @ made)
        close(f"{what}, the gradient", down.weight.grad, slope, 2e-2)


def check_compile(group):
    (x, up, down), _ = layer_tensors(group)
    name = group.name
    right = layer(x, up, down, name)
    function = torch.compile(lambda *given: layer(*given, name) * 2, fullgraph=True)
    close("compiled", function(x, up, down), right * 2)


def check_reduce_overhead(group):
    """torch.compile with CUDA graphs of its own."""
    (x, up, down), _ = layer_tensors(group)
    name = group.name
    right = layer(x, up, down, name)
    function = torch.compile(lambda *given: layer(*given, name) * 2, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        close("in graphs of torch.compile", function(x, up, down).clone(), right * 2)


CHECKS = [check_integers, check_again, check_guards, check_again_otherwise, check_library, check_random, check_mlp,
          check_norm, check_shapes, check_gradients, check_gradients_beside, check_cuda_graphs, check_drop_in,
          check_modules, check_experts, check_uneven, check_whole_tokens, check_routers, check_rooms, check_exchanges,
          check_shared_results, check_compile, check_reduce_overhead, check_beside_nccl]
