"""Calls on GPUs beside kernels of others that wait for other ranks, too."""

import torch
import torch.distributed as dist

import stretto.torch as st

from gpu_common import K, exact, integers, of_ranks, products

FREE_SMS = 16
TURNS = 50


def check_beside_nccl(group):
    """A communicator that is held to the SMs that calls leave: its all-reduces on a stream of their own, begun before a
    call on some ranks and behind it on others.
    """
    if dist.get_backend() != "nccl" or group.ranks == 1:
        return
    options = dist.ProcessGroupNCCL.Options()
    options.config.max_ctas, options.config.cga_cluster_size = FREE_SMS, 0
    others = dist.new_group(pg_options=options)
    own = st.init(dist.new_group(), timeout_s=15, free_sms=FREE_SMS)
    rank, ranks = own.rank, own.ranks
    xs, ws = of_ranks(integers, own, 501, 2048, K), of_ranks(integers, own, 502, 4096, K)
    gathered = torch.cat(xs).float() @ ws[rank].float().t()
    buckets, side = torch.ones(1, 1 << 22, device="cuda"), torch.cuda.Stream()

    def reduce_beside():
        with torch.cuda.stream(side):
            buckets.fill_(rank + 1)
            dist.all_reduce(buckets, group=others)

    def call():
        return (st.matmul_all_reduce(xs[rank], ws[rank], group=own),
                st.all_gather_matmul(xs[rank], ws[rank], group=own))

    call()  # makes plans, and the next line connects
    reduce_beside()
    torch.cuda.synchronize()
    dist.barrier()
    for turn in range(TURNS):
        if (turn + rank) % 2:
            reduce_beside()
        made = call()
        if (turn + rank) % 2 == 0:
            reduce_beside()
    own.finish()
    torch.cuda.synchronize()
    exact("matmul_all_reduce beside NCCL", made[0], products(xs, ws))
    exact("all_gather_matmul beside NCCL", made[1], gathered)
    exact("NCCL's all-reduce beside calls", buckets, torch.full_like(buckets, ranks * (ranks + 1) // 2))
    own.close()
