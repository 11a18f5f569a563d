"""Triton kernels of one pass over memory for what stands between products: what sequences of libraries are timed with.

They run on CPU tensors too, with TRITON_INTERPRET=1.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _swiglu(both, act, inner, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(both + row * 2 * inner + at, mask=at < inner, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * inner + inner + at, mask=at < inner, other=0.0).to(tl.float32)
    tl.store(act + row * inner + at, (gate / (1.0 + tl.exp(-gate)) * up).to(act.dtype.element_ty), mask=at < inner)


@triton.jit
def _add_norm(x, residual, scale, out, total, columns, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(residual + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(total + row * columns + at, value.to(total.dtype.element_ty), mask=inside)
    root = tl.rsqrt(tl.sum(value * value, axis=0) / columns + eps)
    by = tl.load(scale + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * columns + at, (value * root * by).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _exchange(source, target, columns, source_row, source_part, target_row, target_part, BLOCK: tl.constexpr):
    """Row i of part j: each has so many columns, and rows and parts lie so far apart in either."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + row * source_row + part * source_part + at, mask=at < columns)
    tl.store(target + row * target_row + part * target_part + at, value, mask=at < columns)


def swiglu(both, act):
    """act[m, f] = silu(both[:, :f]) * both[:, f:]."""
    inner = act.shape[1]
    block = min(1024, triton.next_power_of_2(inner))
    _swiglu[(act.shape[0], triton.cdiv(inner, block))](both, act, inner, BLOCK=block, num_warps=4)


def add_norm(x, residual, scale, out, total, eps):
    """total = x + residual; out = total / its root mean square by row * scale."""
    columns = x.shape[1]
    block = triton.next_power_of_2(columns)
    _add_norm[(x.shape[0],)](x, residual, scale, out, total, columns, eps, BLOCK=block,
                             num_warps=16 if block >= 4096 else 4)


def deal_columns(whole, parts):
    """parts[p, m, n / P] = columns of whole[m, n]: what an all-to-all sends."""
    count, rows, columns = parts.shape
    block = min(1024, triton.next_power_of_2(columns))
    _exchange[(rows, count, triton.cdiv(columns, block))](whole, parts, columns, whole.stride(0), columns, columns,
                                                         rows * columns, BLOCK=block, num_warps=4)


def join_columns(parts, whole):
    """The other way round: what an all-to-all brought."""
    count, rows, columns = parts.shape
    block = min(1024, triton.next_power_of_2(columns))
    _exchange[(rows, count, triton.cdiv(columns, block))](parts, whole, columns, columns, rows * columns,
                                                         whole.stride(0), columns, BLOCK=block, num_warps=4)


def checked():
    """Raises AssertionError where a kernel does not do what its docstring says, on small tensors of the CPU."""
    torch.manual_seed(1)
    both, act = torch.randn(3, 10), torch.empty(3, 5)
    swiglu(both, act)
    torch.testing.assert_close(act, torch.nn.functional.silu(both[:, :5]) * both[:, 5:])
    x, residual, scale = torch.randn(3, 6), torch.randn(3, 6), torch.randn(6)
    out, total = torch.empty(3, 6), torch.empty(3, 6)
    add_norm(x, residual, scale, out, total, 1e-5)
    torch.testing.assert_close(total, x + residual)
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(total, (6,), scale, 1e-5))
    parts, back = torch.empty(2, 3, 3), torch.empty(3, 6)
    deal_columns(x, parts)
    torch.testing.assert_close(parts, torch.stack(x.split(3, 1)))
    join_columns(parts, back)
    torch.testing.assert_close(back, x)
