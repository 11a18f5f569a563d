"""A layer of experts by others: PyTorch's grouped products, and DeepGEMM's behind one-pass kernels in Triton.

Each is a call from ids to weighted sums that a graph captures. What DeepGEMM takes part with is how serving engines use
it: a kernel counts choices, one places them and copies their rows, then gate and up, SwiGLU, down, and a weighted sum
of each token's rows. How many rows an expert has it is told beforehand, as buffers' sizes; places are made in the call.
"""

import importlib.metadata

import torch
from moe_layers import FORM, spaces_of

try:
    import deep_gemm
except ImportError:
    deep_gemm = None
try:
    import triton
    import triton.language as tl
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


if triton is not None:
    @triton.jit
    def count_choices(ids, counts, choices, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < choices
        expert = tl.load(ids + at, mask=inside, other=0)
        tl.atomic_add(counts + expert, 1, mask=inside)

    @triton.jit
    def begin_experts(counts, cursors, experts, align, each, BLOCK: tl.constexpr):
        """Where each expert's rows begin: behind those of the ones before, rounded up, or at equal distances."""
        at = tl.arange(0, BLOCK)
        inside = at < experts
        count = tl.load(counts + at, mask=inside, other=0)
        space = (count + align - 1) // align * align
        first = tl.cumsum(space, 0) - space
        if each > 0:
            first = at * each
        tl.store(cursors + at, first, mask=inside)

    @triton.jit
    def place_rows(x, ids, cursors, rows, places, layout, hidden, top_k: tl.constexpr, BLOCK: tl.constexpr):
        """A choice takes its expert's next row, and its token's values go there."""
        choice = tl.program_id(0)
        expert = tl.load(ids + choice)
        place = tl.atomic_add(cursors + expert, 1)
        tl.store(places + choice, place)
        tl.store(layout + place, expert)
        source, target = (choice // top_k).to(tl.int64) * hidden, place.to(tl.int64) * hidden
        for first in range(0, hidden, BLOCK):
            at = first + tl.arange(0, BLOCK)
            tl.store(rows + target + at, tl.load(x + source + at, mask=at < hidden), mask=at < hidden)

    @triton.jit
    def swiglu(both, act, places, inner, BLOCK: tl.constexpr):
        place = tl.load(places + tl.program_id(0)).to(tl.int64)
        for first in range(0, inner, BLOCK):
            at = first + tl.arange(0, BLOCK)
            gate = tl.load(both + place * 2 * inner + at, mask=at < inner, other=0.0).to(tl.float32)
            up = tl.load(both + place * 2 * inner + inner + at, mask=at < inner, other=0.0).to(tl.float32)
            result = gate / (1.0 + tl.exp(-gate)) * up
            tl.store(act + place * inner + at, result.to(act.dtype.element_ty), mask=at < inner)

    @triton.jit
    def sum_choices(rows, weights, places, y, hidden, top_k: tl.constexpr, BLOCK: tl.constexpr):
        token, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for slot in tl.static_range(top_k):
            place = tl.load(places + token * top_k + slot).to(tl.int64)
            weight = tl.load(weights + token * top_k + slot)
            total += weight * tl.load(rows + place * hidden + at, mask=at < hidden, other=0.0).to(tl.float32)
        tl.store(y + token.to(tl.int64) * hidden + at, total.to(y.dtype.element_ty), mask=at < hidden)


def by_deep_gemm(form, align, space, x, ids, weights, gate_up, down, y):
    tokens, top_k = ids.shape
    experts, hidden, inner = down.shape
    choices, total, is_masked = tokens * top_k, sum(space), form == "masked"
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    rows, both = torch.zeros(total, hidden, **bf16), torch.zeros(total, 2 * inner, **bf16)
    act, out = torch.zeros(total, inner, **bf16), torch.zeros(total, hidden, **bf16)
    counts, cursors = (torch.zeros(experts, device="cuda", dtype=torch.int32) for _ in range(2))
    places = torch.zeros(choices, device="cuda", dtype=torch.int32)
    layout = torch.empty(total, device="cuda", dtype=torch.int32)
    wide = min(2048, triton.next_power_of_2(hidden))
    some = max(1, choices // experts)

    def multiply(a, b, c):
        if is_masked:
            split = (experts, space[0], -1)
            deep_gemm.m_grouped_bf16_gemm_nt_masked(a.view(split), b, c.view(split), counts, some)
        else:
            deep_gemm.set_mk_alignment_for_contiguous_layout(align)
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, c, layout)

    def call():
        counts.zero_()
        layout.fill_(-1)
        count_choices[(triton.cdiv(choices, 256),)](ids, counts, choices, BLOCK=256)
        begin_experts[(1,)](counts, cursors, experts, align, space[0] if is_masked else 0,
                            BLOCK=triton.next_power_of_2(experts))
        place_rows[(choices,)](x, ids, cursors, rows, places, layout, hidden, top_k=top_k, BLOCK=wide)
        multiply(rows, gate_up, both)
        swiglu[(choices,)](both, act, places, inner, BLOCK=min(2048, triton.next_power_of_2(inner)))
        multiply(act, down, out)
        sum_choices[(tokens, triton.cdiv(hidden, 1024))](out, weights, places, y, hidden, top_k=top_k, BLOCK=1024)

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
