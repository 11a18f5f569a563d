"""What checks of job.py share: tensors of every rank, a layer, and what is right in fp64."""

import torch
import torch.nn.functional as F

import stretto.torch as st

H, FF = 32, 64


def normal(seed, *shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(got, right, most=2e-2):
    assert got.shape == right.shape, (got.shape, right.shape)
    error = (got.double() - right.double()).abs().max().item()
    scale = max(1.0, right.double().abs().max().item())
    assert error <= most * scale, f"an error of {error} of {scale}"


def layer(x, up, down, group):
    hidden = F.silu(st.all_gather_matmul(x, up, group=group))
    return st.matmul_reduce_scatter(hidden, down, group=group)


def inputs(rank, requires_grad=True):
    tensors = normal(rank, 8, H), normal(10 + rank, FF, H) / 4, normal(20 + rank, H, FF) / 4
    return [one.requires_grad_(requires_grad) for one in tensors]


def right_layer(ranks):
    x = torch.cat([inputs(rank)[0] for rank in ranks]).double()
    total = sum(F.silu(x @ inputs(rank)[1].double().t()) @ inputs(rank)[2].double().t() for rank in ranks)
    return total.split(8)
