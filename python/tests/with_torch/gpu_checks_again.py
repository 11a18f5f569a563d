"""Eager calls that come again, on GPUs: what is looked up is what was asked for."""

import torch

import stretto
import stretto.torch as st
from stretto.torch import _records

from gpu_common import K, exact, integers, of_ranks, products, told_wrong


def check_again(group):
    """Calls that come again: new inputs at the same and at other addresses, beside other shapes and products."""
    rank, ranks = group.rank, group.ranks
    ws, kept = of_ranks(integers, group, 1, 512, K), torch.empty(72, K, device="cuda", dtype=torch.bfloat16)
    before = _records.num_calls()
    results = []
    for turn in range(6):
        rows = 72 if turn % 3 else 48
        xs = of_ranks(integers, group, 200 + turn, rows, K)
        x = kept[:rows].copy_(xs[rank]) if turn % 2 else xs[rank]
        results.append((st.all_gather_matmul(x, ws[rank], group=group), torch.cat(xs).float() @ ws[rank].float().t()))
        results.append((st.matmul_all_reduce(x, ws[rank], group=group), products(xs, ws)))
        results.append((st.matmul_reduce_scatter(x, ws[rank], group=group), products(xs, ws).chunk(ranks)[rank]))
    for got, right in results:  # all at the end: results share no memory
        exact("a call that came again", got, right)
    if _records.num_calls() < before + 6:
        told_wrong(f"{_records.num_calls() - before} calls were learnt; 6 were expected")


def check_again_otherwise(group):
    """Calls that come again with biases, in tensors of the caller, of several weights, and with gradients."""
    rank, ranks = group.rank, group.ranks
    for turn in range(3):
        xs, ws = of_ranks(integers, group, 300 + turn, 56, K), of_ranks(integers, group, 310 + turn, 512, K)
        x, w, bias, all_x = xs[rank], ws[rank], integers(320 + turn, 512), torch.cat(xs).float()
        total = products(xs, ws)
        exact("a bias behind a sum", st.matmul_all_reduce(x, w, bias, group), total + bias.float())
        exact("a bias", st.all_gather_matmul(x, w, bias, group), all_x @ w.float().t() + bias.float())
        out = torch.full((56, 512), float("nan"), device="cuda", dtype=torch.bfloat16)
        exact("out", st.matmul_all_reduce(x, w, group=group, out=out), total)
        for got, one in zip(st.all_gather_matmul(x, list(w.split([128, 384])), group=group), w.split([128, 384])):
            exact("one of several weights", got, all_x @ one.float().t())
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = st.all_gather_matmul(x, w, group=group)
        y.backward(integers(330 + turn + 10 * rank, *y.shape))
        dys = [integers(330 + turn + 10 * one, *y.shape) for one in range(ranks)]
        exact("the gradient of a weight", w.grad, dys[rank].float().t() @ all_x)
        exact("the gradient of x", x.grad, sum(dy.float() @ one.float() for dy, one in zip(dys, ws)).chunk(ranks)[rank])
    if _records.num_calls() < 5:
        told_wrong(f"{_records.num_calls()} calls are known; 5 or more were expected")


def check_library(group):
    """Products by cuBLAS, and a bias behind them. NCCL, which goes with them, shares no GPU: of one rank only."""
    if group.ranks > 1:
        return
    own = st.init(torch.distributed.new_group(), schedule="library")
    x, w, bias = integers(340, 64, K), integers(341, 512, K), integers(342, 512)
    right = x.float() @ w.float().t()
    for _ in range(2):
        exact("with a bias", st.all_gather_matmul(x, w, bias, own), right + bias.float())
        exact("with a bias behind a sum", st.matmul_all_reduce(x, w, bias, own), right + bias.float())
        exact("without", st.matmul_reduce_scatter(x, w, group=own), right)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = st.all_gather_matmul(x, w, bias, own)
    for turn in range(3):
        x.copy_(integers(343 + turn, 64, K))
        graph.replay()
        exact("in a graph", y, x.float() @ w.float().t() + bias.float())
    torch.cuda.synchronize()
    del graph
    own.finish()
    own.close()


def check_shared_results(group):
    """Sums that ranks write to each other's results: stretto.Operation, in the group's context."""
    context, rank = group.engines["cuda"]._context, group.rank
    shared = context.empty_shared(2 * 128, 512)
    places = torch.as_tensor(shared, device="cuda").view(torch.bfloat16).split(128)
    w = of_ranks(integers, group, 400, 512, K)
    with stretto.Operation(context, "gemm-ar", schedule="tiles", shared_results=True, m=128, n=512,
                           k=K * group.ranks) as operation:
        for turn, rows in enumerate((128, 40, 128, 7)):
            x = of_ranks(integers, group, 410 + turn, rows, K)
            out = places[turn % 2][:rows]
            operation(a=x[rank], b=w[rank], out=out)
            exact("results that other ranks write", out.clone(), products(x, w))
        operation.finish()
        if group.ranks > 1:
            try:
                operation(a=x[rank], b=w[rank], out=out.clone())
                told_wrong("memory that no rank reaches was taken for a result")
            except ValueError as error:
                if "allocate_shared" not in str(error):
                    told_wrong(str(error))


def check_guards(group):
    """Nothing is written beside a result, and every row of it is: results lie between rows that nobody may touch."""
    rank, ranks, beside = group.rank, group.ranks, 64
    w, bias = of_ranks(integers, group, 500, 512, K), integers(501, 512)
    for turn, rows in enumerate((56, 64, 7, 72, 56, 40)):
        xs = of_ranks(integers, group, 510 + turn, rows * ranks, K)
        x, own = xs[rank], xs[rank][:rows]
        gathered = torch.cat([one[:rows] for one in xs]).float() @ w[rank].float().t()
        total = products(xs, w)
        for name, call, right in (
                ("gather", lambda out: st.all_gather_matmul(own, w[rank], group=group, out=out), gathered),
                ("gather with a bias", lambda out: st.all_gather_matmul(own, w[rank], bias, group, out=out),
                 gathered + bias.float()),
                ("sum", lambda out: st.matmul_all_reduce(x, w[rank], group=group, out=out), total),
                ("scatter", lambda out: st.matmul_reduce_scatter(x, w[rank], group=group, out=out),
                 total.chunk(ranks)[rank])):
            for _ in range(3):
                room = torch.full((right.shape[0] + 2 * beside, 512), 77.0, device="cuda", dtype=torch.bfloat16)
                call(room[beside:-beside])
                exact(f"{name} of {rows} rows", room[beside:-beside], right)
                for where, part in (("before", room[:beside]), ("behind", room[-beside:])):
                    touched = (part != 77).any(1).nonzero().flatten().tolist()
                    if touched:
                        told_wrong(f"{name} of {rows} rows wrote rows {touched} {where} its result")
