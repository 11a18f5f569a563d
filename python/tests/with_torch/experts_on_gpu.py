#!/usr/bin/env python3
"""Layers of experts on one GPU with tensors of the caller's: ids and weights of types of their own, other tensors at
every call, graphs, and ids that are no expert's.

    python/tests/with_torch/experts_on_gpu.py

A rank by itself. Ends with a line, and with exit code 1 where a check failed.
"""

import sys

import torch

import stretto

TOKENS, HIDDEN, INNER, EXPERTS, WORST_ERROR = 203, 512, 192, 12, 1e-2


def by_choice(x, ids, wg, wu):
    rows = torch.full((TOKENS, ids.shape[1], INNER), float("nan"), device="cuda")
    for expert in range(EXPERTS):
        tokens, slots = (ids == expert).nonzero(as_tuple=True)
        own = x[tokens].float()
        rows[tokens, slots] = torch.nn.functional.silu(own @ wg[expert].float().T) * (own @ wu[expert].float().T)
    return rows.view(-1, INNER)


def reference(x, ids, weights, wg, wu, wd):
    sums = torch.zeros(len(x), HIDDEN, device="cuda")
    for expert in range(EXPERTS):
        tokens, slots = (ids == expert).nonzero(as_tuple=True)
        rows = x[tokens].float()
        act = torch.nn.functional.silu(rows @ wg[expert].float().T) * (rows @ wu[expert].float().T)
        sums.index_add_(0, tokens, weights[tokens, slots, None] * (act.bfloat16().float() @ wd[expert].float().T))
    return sums


def fresh(top_k, seed):
    torch.manual_seed(seed)
    ids = torch.rand(TOKENS, EXPERTS).topk(top_k, dim=1).indices.int()
    tensors = {"x": torch.randn(TOKENS, HIDDEN), "ids": ids, "weights": torch.rand(TOKENS, top_k),
               "wg": torch.randn(EXPERTS, INNER, HIDDEN) / HIDDEN ** 0.5,
               "wu": torch.randn(EXPERTS, INNER, HIDDEN) / HIDDEN ** 0.5,
               "wd": torch.randn(EXPERTS, HIDDEN, INNER) / INNER ** 0.5, "y": torch.full((TOKENS, HIDDEN), float("nan")),
               "a": torch.full((TOKENS * top_k, INNER), float("nan"))}
    return {name: (one if name in ("ids", "weights") else one.bfloat16()).cuda() for name, one in tensors.items()}


def require_right(tensors, what):
    torch.cuda.synchronize()
    if "a" in tensors:
        expected = by_choice(*(tensors[name] for name in ("x", "ids", "wg", "wu")))
        got = tensors["a"].float()
        is_there = ~expected.isnan()
        if not bool(got[~is_there].isnan().all()):
            raise AssertionError(f"{what}: rows of no expert were written")
        expected, got = expected[is_there], got[is_there]
    else:
        expected = reference(*(tensors[name] for name in ("x", "ids", "weights", "wg", "wu", "wd")))
        got = tensors["y"].float()
    error = float((got - expected).norm() / expected.norm())
    if not error < WORST_ERROR:
        raise AssertionError(f"{what}: error {error}")


def of_operator(operator, tensors):
    unused = ("weights", "wd", "y") if operator == "moe-tp-up" else ("a",)
    return {name: one for name, one in tensors.items() if name not in unused}


def check(context, operator, top_k):
    what = f"{operator} k={top_k}"
    with stretto.Operation(context, operator, rows="fixed", schedule="sequential", t=TOKENS, h=HIDDEN, f=INNER,
                           experts=EXPERTS, k=top_k) as operation:
        for seed in range(3):  # each at other addresses
            tensors = of_operator(operator, fresh(top_k, seed))
            operation.run(tensors)
            require_right(tensors, what)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(operation.runs_per_graph()):
                operation.run(tensors)
        for seed in range(20):  # other routings and numbers in the same memory
            for name, one in of_operator(operator, fresh(top_k, 100 + seed)).items():
                tensors[name].copy_(one)
            graph.replay()
            require_right(tensors, f"{what}, replay {seed}")
        operation.finish()
        if operation.bad_ids() != 0:
            raise AssertionError(f"{what}: {operation.bad_ids()} bad ids, and there was none")
        tensors["ids"][0, 0], tensors["ids"][7, top_k - 1], tensors["ids"][TOKENS - 1, 0] = EXPERTS, -2, 2**31 - 1
        tensors["ids"][9, 0] = -1
        if operator == "moe-tp-up":
            tensors["a"].fill_(float("nan"))
        operation.run(tensors)
        require_right(tensors, f"{what} with bad ids")
        operation.finish()
        if operation.bad_ids() != 3:
            raise AssertionError(f"{what}: {operation.bad_ids()} bad ids were counted of 3")


def main():
    checked = []
    with stretto.Context(rank=0, ranks=1, gpu=0) as context:
        for operator in ("moe-ep", "moe-tp", "moe-tp-up"):
            for top_k in (1, 2, 3, 8):
                try:
                    check(context, operator, top_k)
                    checked.append("ok")
                except (AssertionError, ValueError, RuntimeError) as error:
                    checked.append(f"FAILED {operator} k={top_k}: {error}")
    print("experts on a GPU:", ", ".join(checked))
    return int(any(one != "ok" for one in checked))


if __name__ == "__main__":
    sys.exit(main())
