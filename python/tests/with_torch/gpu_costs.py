"""What eager calls take of the host."""

import itertools
import statistics
import time

import torch
import torch.nn.functional as F

import stretto.torch as st

import gpu_common


def host_us(call, runs=100, turns=3):
    """What a call takes of the host while the GPU is behind: the middle turn's."""
    for _ in range(4):
        call()
    took = []
    for _ in range(turns):
        torch.cuda.synchronize()
        torch.cuda._sleep(100_000_000)
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        took.append((time.perf_counter() - begin) * 1e6 / runs)
    torch.cuda.synchronize()
    return statistics.median(took)


def host_costs(group):
    """What eager calls take of the host, beside PyTorch's product and the library's call alone."""
    x, w, g = (gpu_common.normal(1, 16, 512), gpu_common.normal(2, 512, 512), gpu_common.normal(3, 16, 512))
    scale = gpu_common.normal(4, 512)
    calls = {"matmul_all_reduce": lambda: st.matmul_all_reduce(x, w, group=group),
             "all_gather_matmul": lambda: st.all_gather_matmul(x, w, group=group),
             "matmul_reduce_scatter": lambda: st.matmul_reduce_scatter(x, w, group=group),
             "add_rms_norm": lambda: st.matmul_all_reduce_add_rms_norm(x, w, g, scale, 1e-6, group),
             "mlp": lambda: st.mlp(x, [w, w], w, group), "PyTorch's F.linear": lambda: F.linear(x, w)}
    out, parts = torch.empty_like(x), list(w.split([128, 384]))
    ids, weights = torch.zeros(16, 2, device="cuda", dtype=torch.int32), torch.ones(16, 2, device="cuda")
    experts = [gpu_common.normal(5, 4, 512, 512) for _ in range(3)]
    calls["moe"] = lambda: st.moe(x, ids, weights, *experts, group)
    others_x = itertools.cycle([torch.empty_like(x) for _ in range(400)])  # more than tables are kept for
    others = {"matmul_all_reduce with out": lambda: st.matmul_all_reduce(x, w, group=group, out=out),
              "matmul_all_reduce with a bias": lambda: st.matmul_all_reduce(x, w, scale, group),
              "matmul_all_reduce, new addresses": lambda: st.matmul_all_reduce(next(others_x), w, group=group),
              "F.linear, new addresses": lambda: F.linear(next(others_x), w),
              "all_gather_matmul of two weights": lambda: st.all_gather_matmul(x, parts, group=group)}
    with torch.no_grad():
        told = [(name, host_us(call)) for name, call in {**calls, **others}.items()]
    w.requires_grad_()
    for name in ("matmul_all_reduce", "all_gather_matmul", "mlp", "PyTorch's F.linear"):
        told.append((f"{name} with a gradient", host_us(calls[name])))
    operation = next(one for by_rows in group.engines["cuda"]._operations.values() for one in by_rows.values()
                     if getattr(one, "rows", "") == "bucket")
    infos = operation.tensors_of(16 * group.ranks)
    tensors = {name: torch.zeros(info.shape, device="cuda", dtype=torch.bfloat16) for name, info in infos.items()}
    told.append(("stretto.Operation.run", host_us(lambda: operation.run(tensors, 16 * group.ranks))))
    return told
