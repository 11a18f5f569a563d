#!/usr/bin/env python3
"""stretto.torch on GPUs: numbers, gradients, CUDA graphs, torch.compile, PyTorch's drop-in, and times.

    torchrun --nproc-per-node 2 python/tests/with_torch/on_gpus.py [--no-times]

Everything must be served by Stretto. Ends with a table, and with exit code 1 where a check failed.
"""

import os
import sys
import traceback

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import stretto.torch as st  # noqa: E402

MOST_ERROR = 1e-2  # relative, in norm: partial sums and results are rounded to bf16


def normal(*shape, scale=1.0):
    return torch.randn(*shape, device="cuda").mul_(scale).bfloat16()


def close(got, right):
    error = ((got.float() - right.float()).norm() / right.float().norm().clamp(min=1e-6)).item()
    assert got.shape == right.shape and error <= MOST_ERROR, f"{list(got.shape)}: an error of {error:.1e}"


def gathered(x):
    whole = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous())
    return whole


def summed(x):
    total = x.float()
    dist.all_reduce(total)
    return total


def own(x):
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def check_numbers(group):
    for rows, n, k in ((64, 512, 512), (256, 1024, 2048), (1000, 512, 1024)):
        x, w, bias = normal(rows, k), normal(n, k, scale=k ** -0.5), normal(n)
        close(st.all_gather_matmul(x, w, bias, group), F.linear(gathered(x).float(), w.float(), bias.float()))
        ranks = dist.get_world_size()
        x = normal(rows * ranks, k)
        total = summed(F.linear(x.float(), w.float()))
        close(st.matmul_reduce_scatter(x, w, group=group), own(total))
        for few in (1, 3, rows):
            close(st.matmul_all_reduce(x[:few], w, group=group), total[:few])
    q, k = st.all_gather_matmul(normal(64, 512), [normal(256, 512), normal(128, 512)], group=group)
    assert q.shape[1] == 256 and k.shape[1] == 128


def check_whole_operators(group):
    ranks = dist.get_world_size()
    x, gate, up, down = normal(128, 1024), normal(1024, 1024, scale=0.03), normal(1024, 1024, scale=0.03), normal(
        1024, 1024, scale=0.03)
    whole = gathered(x).float()
    right = summed((F.silu(whole @ gate.float().t()) * (whole @ up.float().t())) @ down.float().t())
    close(st.mlp(x, [gate, up], down, group, sequence_parallel=True), own(right))
    torch.manual_seed(7)
    residual, scale = normal(128, 1024), normal(1024)
    total = summed(F.linear(x.float(), down.float())) + residual.float()
    normed, s = st.matmul_all_reduce_add_rms_norm(x, down, residual, scale, 1e-6, group)
    close(s, total)
    close(normed, total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * scale.float())
    assert ranks == group.ranks


def check_leading_dimensions_and_uneven_rows(group):
    rank, ranks = group.rank, group.ranks
    w = normal(512, 512, scale=0.05)
    x = normal(4, 64, 512)
    whole = torch.cat(list(gathered(x[None])), 1).float()
    close(st.all_gather_matmul(x, w, group=group, dim=1), whole @ w.float().t())
    total = 64 * ranks - 1
    x = normal(64 if rank < ranks - 1 else 63, 512)
    y = st.all_gather_matmul(x, w, group=group, rows=total)
    assert y.shape == (total, 512)
    z = st.matmul_reduce_scatter(y, w, group=group)
    assert z.shape == x.shape


def layer(x, up, down, group):
    return st.matmul_reduce_scatter(F.silu(st.all_gather_matmul(x, up, group=group)), down, group=group)


def check_gradients(group):
    tensors = [normal(128, 512).requires_grad_(), normal(512, 512, scale=0.04).requires_grad_(),
               normal(512, 512, scale=0.04).requires_grad_()]
    layer(*tensors, group).float().square().sum().backward()
    wide = [one.detach().float().requires_grad_() for one in tensors]
    whole = gathered(wide[0].detach()).requires_grad_()
    y = F.silu(whole @ wide[1].t()) @ wide[2].t()
    total = summed(y.detach())
    y.backward(2 * total)
    close(tensors[1].grad, wide[1].grad)
    close(tensors[2].grad, wide[2].grad)
    close(tensors[0].grad, own(summed(whole.grad)))


def check_cuda_graphs(group):
    x, up, down = normal(128, 512), normal(512, 512, scale=0.04), normal(512, 512, scale=0.04)
    right = layer(x, up, down, group)
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x, up, down, group)
    for _ in range(3):
        x.copy_(normal(128, 512))
        graph.replay()
        got = y.clone()
        close(got, layer(x, up, down, group))
    close(right, right)
    torch.cuda.synchronize()
    group.finish()


def check_compile(group):
    x, up, down = normal(128, 512), normal(512, 512, scale=0.04), normal(512, 512, scale=0.04)
    name = group.name
    compiled = torch.compile(lambda *given: layer(*given, name), fullgraph=True)
    close(compiled(x, up, down), layer(x, up, down, name))


def check_drop_in(group):
    x, w = normal(128 * group.ranks, 512), normal(512, 512, scale=0.04)
    st.enable_symm_mem(return_gathered=False)
    try:
        y = torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w.t(), "sum", 0, group.name)
        close(y, own(summed(x.float() @ w.float().t())))
        _, (z,) = torch.ops.symm_mem.fused_all_gather_matmul(x, [w.t()], 0, group.name)
        close(z, gathered(x).float() @ w.float().t())
        assert st.report().served["symm_mem.fused_all_gather_matmul"] == 1
    finally:
        st.disable_symm_mem()


def time_us(call, runs=20):
    for _ in range(3):
        call()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier()
    start.record()
    for _ in range(runs):
        call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) * 1000 / runs


def times(group):
    """Eager calls, host included: Stretto's operator, and NCCL with cuBLAS by PyTorch."""
    ranks, told = group.ranks, []
    for rows, n, k in ((2048, 8192, 8192), (8192, 8192, 28672)):
        x, w = normal(rows // ranks, n), normal(k // ranks, n, scale=0.01)
        told.append(("all_gather_matmul", rows, k, n, time_us(lambda: st.all_gather_matmul(x, w, group=group)),
                     time_us(lambda: F.linear(gathered(x), w))))
        x, w = normal(rows, k // ranks), normal(n, k // ranks, scale=0.01)
        y = x.new_empty(rows // ranks, n)
        told.append(("matmul_reduce_scatter", rows, n, k,
                     time_us(lambda: st.matmul_reduce_scatter(x, w, group=group)),
                     time_us(lambda: dist.reduce_scatter_tensor(y, F.linear(x, w)))))
    return told


def main():
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    torch.manual_seed(100 + dist.get_rank())
    group, told, failed = st.init(timeout_s=20), [], 0
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check(group)
                group.finish()
                told.append(f"{name[6:]:40} ok")
            except Exception:
                failed += 1
                told.append(f"{name[6:]:40} {traceback.format_exc(limit=-3).strip()}")
                break  # ranks may be at different calls
    chosen = "the gathered rows are kept"
    others = {key: count for key, count in st.report().fallbacks.items()
              if chosen not in key[1] and not key[0].startswith("symm_mem")}
    table = [] if failed or "--no-times" in sys.argv else times(group)
    if dist.get_rank() == 0:
        print(st.report(), *told, sep="\n")
        for op, rows, n, k, ours, theirs in table:
            print(f"{op:24} m={rows} n={n} k={k}: {ours:8.1f} us, PyTorch's {theirs:8.1f} us, x{theirs / ours:.2f}")
    if others:
        print(f"rank {dist.get_rank()}: not served: {others}")
    group.close()
    dist.destroy_process_group()
    sys.exit(1 if failed or others else 0)


if __name__ == "__main__":
    main()
