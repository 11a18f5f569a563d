"""torch.compile, checkpoints and autocast."""

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import stretto.torch as st

from job_common import FF, H, close, inputs, layer, normal, right_layer


def compiled(backend, name):
    rank = dist.get_rank()
    torch._dynamo.reset()

    def function(x, up, down):
        y = layer(x, up, down, name)
        normed, s = st.matmul_all_reduce_add_rms_norm(
            y, down.t().contiguous()[:16], y[:, :16], up[0, :16], 1e-6, name)
        return st.mlp(y, [up, up], down, name, sequence_parallel=True) + normed.sum() + s.sum()

    eager = inputs(rank)
    right = function(*eager)
    right.float().square().sum().backward()
    traced = inputs(rank)
    got = torch.compile(function, fullgraph=True, backend=backend)(*traced)
    got.float().square().sum().backward()
    close(got, right)
    for one, other in zip(traced, eager):
        close(one.grad, other.grad, 5e-2)


def check_compile_fullgraph(mesh):
    compiled("aot_eager", mesh["tp"].get_group().group_name)


def check_compile_any_number_of_rows(mesh):
    rank, name = dist.get_rank(), mesh["tp"].get_group().group_name
    torch._dynamo.reset()
    function = torch.compile(lambda x, up, down: layer(x, up, down, name), fullgraph=True,
                             backend="aot_eager", dynamic=True)
    _, up, down = inputs(rank, False)
    for rows in (4, 6, 10):
        x = normal(rank + rows, rows, H)
        close(function(x, up, down), layer(x, up, down, name))


def check_compile_out(mesh):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):  # its Dynamo has no operators with out
        return
    rank, name = dist.get_rank(), mesh["tp"].get_group().group_name
    x, up, _ = inputs(rank, False)

    def function(x, up):
        out, normed, total = torch.empty(16, FF, dtype=x.dtype), *(torch.empty(8, FF, dtype=x.dtype) for _ in "ab")
        st.all_gather_matmul(x, up, group=name, out=out)
        st.matmul_all_reduce_add_rms_norm(x, up, out[:8], up[:, 0].contiguous(), 1e-6, name, out=(normed, total))
        back = torch.empty_like(x)
        st.mlp(x, [up, up], up.t().contiguous(), name, out=back)
        return out * 2, normed + total, back
    for one, other in zip(torch.compile(function, fullgraph=True, backend="aot_eager")(x, up), function(x, up)):
        close(one, other)


def check_opcheck(mesh):
    """PyTorch's own checks of an operator: schema, fake kernel, autograd, tracing; in a group of one rank."""
    alone = mesh.alone
    if not alone:
        return
    ops, (x, up, down) = torch.ops.stretto, inputs(0)
    bias = normal(3, FF).requires_grad_()
    for op, arguments in (
            (ops.all_gather_matmul, (x, [up, up], [bias, bias], alone, 0, None, True)),
            (ops.matmul_reduce_scatter, (x, up, bias, alone)),
            (ops.matmul_all_reduce, (x, up, None, alone)),
            (ops.matmul_all_reduce_add_rms_norm, (x, up, normal(5, 8, FF), bias, 1e-6, alone)),
            (ops.mlp, (x, [up, up], [], down, "swiglu", alone, True)),
            (ops.column_matmul, (x, [up], [bias], alone)),
            (ops.matmul_all_reduce_back, (x.detach(), [down.detach()[:, :16].t().contiguous()] * 2, alone)),
            (ops.matmul_reduce_scatter_back, (x.detach(), [down.detach()[:, :16].t().contiguous()] * 2, alone)),
            (ops.column_matmul_backward, (x.detach(), x.detach(), [up.detach()[:16]] * 2, alone)),
            (ops.all_gather_matmul_backward, (x.detach(), x.detach(), [up.detach()[:16]] * 2, alone)),
            (ops.all_gather, (x.detach(), alone))):
        torch.library.opcheck(op.default, arguments)
    with torch.no_grad():
        torch.library.opcheck(ops.matmul_all_reduce.out, (x.detach(), up.detach(), None, alone), {
            "out": torch.empty(8, FF, dtype=x.dtype)})


def check_activation_checkpointing(mesh):
    rank, tp = dist.get_rank(), mesh["tp"]
    plain, kept = inputs(rank), inputs(rank)
    layer(*plain, tp).float().sum().backward()
    checkpoint(lambda *given: layer(*given, tp), *kept, use_reentrant=False).float().sum().backward()
    for one, other in zip(kept, plain):
        assert torch.equal(one.grad, other.grad)


def check_autocast(mesh):
    rank, tp = dist.get_rank(), mesh["tp"]
    x, up, down = (one.float().detach().requires_grad_() for one in inputs(rank))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x, up, down, tp)
    assert y.dtype == torch.bfloat16, y.dtype
    mine = [rank // 2 * 2, rank // 2 * 2 + 1]
    close(y, right_layer(mine)[rank % 2], 3e-2)
    y.float().sum().backward()
    assert x.grad.dtype == torch.float32


def check_compile_inductor(mesh):
    """On one rank: compiling takes long, and the others would compete for the cores."""
    if mesh.alone:
        compiled("inductor", mesh.alone)
