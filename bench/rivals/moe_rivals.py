"""A layer of experts by others: PyTorch's grouped products, and DeepGEMM's behind one-pass kernels in Triton.

Each is a call from ids to weighted sums that a graph captures. What DeepGEMM takes part with is how serving engines use
it: a kernel counts choices, one places them and copies their rows, then gate and up, SwiGLU, down, and a weighted sum
of each token's rows (expert_passes.py). How many rows an expert has it is told beforehand, as buffers' sizes; places
are made in the call.
"""

import importlib.metadata

import torch
from bench.shapes.moe_layers import FORM, spaces_of

try:
    import deep_gemm
except ImportError:
    deep_gemm = None
try:
    import triton
    from bench.rivals.expert_passes import Passes
except ImportError:
    triton = None


def deep_gemm_version():
    """The package that has it, and its version; else what is missing."""
    if triton is None:
        return "not there: triton is not installed"
    if deep_gemm is None:
        return "not there: no package has deep_gemm"
    packages = importlib.metadata.packages_distributions().get("deep_gemm", [])
    return " ".join(f"{package} {importlib.metadata.version(package)}" for package in packages) or "deep_gemm"


def by_torch(x, ids, weights, gate_up, down, y):
    tokens, top_k = ids.shape
    experts, inner = len(down), down.shape[2]
    up_t, down_t, few = gate_up.transpose(1, 2), down.transpose(1, 2), weights.bfloat16()[:, None, :]
    places = torch.arange(tokens * top_k, device="cuda")

    def call():
        flat = ids.flatten().long()
        order = torch.argsort(flat, stable=True)
        ends = torch.zeros(experts, device="cuda", dtype=torch.int64).scatter_add_(
            0, flat, torch.ones_like(flat)).cumsum(0).int()
        both = torch._grouped_mm(x[order // top_k], up_t, offs=ends)
        act = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        rows = torch._grouped_mm(act, down_t, offs=ends)
        back = torch.empty_like(order)
        back[order] = places
        torch.bmm(few, rows[back].view(tokens, top_k, -1), out=y[:, None, :])

    return call


def deep_gemm_products(passes, form, gate_up, down):
    """Calls of both grouped products on what `passes` put in order."""
    def multiply(a, b, c):
        if form == "masked":
            split = (passes.experts, passes.space[0], -1)
            deep_gemm.m_grouped_bf16_gemm_nt_masked(a.view(split), b, c.view(split), passes.counts, passes.some)
        else:
            deep_gemm.set_mk_alignment_for_contiguous_layout(passes.align)
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, c, passes.layout)

    return (lambda: multiply(passes.rows, gate_up, passes.both)), (lambda: multiply(passes.act, down, passes.out))


def by_deep_gemm(form, align, space, x, ids, weights, gate_up, down, y):
    passes = Passes(ids, weights, 0, space, align, form == "masked", *down.shape[1:], x.device)
    up_product, down_product = deep_gemm_products(passes, form, gate_up, down)

    def call():
        passes.order(x)
        up_product()
        passes.activate()
        down_product()
        passes.total(y)

    return call


def rivals(ids, experts):
    """By name: what makes a call of (x, ids, weights, gate_up, down, y). DeepGEMM's forms where it is there."""
    found = {"torch": by_torch}
    if deep_gemm is None or triton is None:
        return found
    counts = torch.bincount(ids.flatten().long(), minlength=experts).tolist()
    align, forms = spaces_of(counts)
    for form, space in forms.items():
        def make(*tensors, form=form, space=space):
            return by_deep_gemm(form, align, space, *tensors)
        found[FORM + form] = make
    return found
