"""Calls of other numbers of rows than plans were made for, on GPUs: rows that are added, and what is made ahead."""

from unittest import mock

import torch
import torch.distributed as dist

import stretto.torch as st
from stretto.torch import _operations

from gpu_checks_experts import experts_of, routed
from gpu_common import K, close, generator, normal, told_wrong

EXPERTS, F, CHOICES = 8, 256, 2


def calls_of(group, most):
    """call(count) -> run, check: experts of the first so many of `most` tokens, by ids that are given and by a router;
    whether what came is right.
    """
    x, router, given = normal(90, most, K), normal(91, EXPERTS, K, scale=0.04), [
        torch.rand(most, EXPERTS, device="cuda", generator=generator(92)).topk(CHOICES).indices,
        torch.rand(most, CHOICES, device="cuda", generator=generator(93))]
    every = [normal(94 + i, EXPERTS, *shape, scale=0.04) for i, shape in enumerate(((F, K), (F, K), (K, F)))]
    wide, mine = [one.float() for one in every], [one.chunk(group.ranks)[group.rank].contiguous() for one in every]
    right = experts_of(x.float(), *given, *wide)
    y, ids, _ = routed(x.float(), router.float(), None, *wide, CHOICES, 1, 1)

    def call(count):
        block = -(-count // group.ranks)

        def own(one):
            return one[:count][block * group.rank:][:block].clone()
        held = [own(one) for one in (x, *given)]

        def check(made, what):
            close(f"{what} of {count} tokens", made[0], own(right))
            # A choice between two that are all but equal may differ.
            same = (made[2].long() == own(ids)).all(1)
            if same.float().sum() < 0.97 * len(same) - 1:
                told_wrong(f"{what} of {count} tokens: {int((~same).sum())} chose otherwise")
            close(f"{what} of {count} tokens, a router's", made[1][same], own(y)[same])

        def run():
            made = st.moe(*held, *mine, group, expert_parallel=True, rows=count)
            return made, *st.moe_with_router(held[0], router, *mine, CHOICES, group, expert_parallel=True, rows=count)
        return run, check
    return call


def check_rooms(group):
    """Experts of any number of tokens by few plans, in captures too; what is made ahead of calls."""
    ranks, own = group.ranks, st.init(dist.new_group())  # so that it has served nothing else
    call = calls_of(own, 40 * ranks)

    def expect(count, what="experts"):
        run, check = call(count)
        check(run(), what)
    with mock.patch.object(_operations, "MOST_PLANS", 2):
        for count in (40 * ranks, 8 * ranks, 37 * ranks - ranks // 2, 3, 2, 33 * ranks):
            expect(count)
        run, check = call(35 * ranks)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # this number of tokens was not called before
            captured = run()
        for _ in range(3):
            graph.replay()
            check(captured, "a replay")
        torch.cuda.synchronize()
        del graph  # before its operations
        engine = own.engines["cuda"]
        before = engine.num_operations()
        made = st.prepare(12 * ranks, own)
        if not made or engine.num_operations() != before + made:
            told_wrong(f"prepare made {made} operations, and there are {engine.num_operations()} where {before} were")
        for count in (1, 5 * ranks, 6 * ranks - 1, 9 * ranks, 12 * ranks):
            expect(count, "prepared experts")
        if engine.num_operations() != before + made:
            told_wrong("calls made operations that prepare should have made")
    if own.error():
        told_wrong(own.error())
    own.finish()
    own.close()
