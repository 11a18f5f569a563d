"""Gradients of all-to-alls beside products, and of look-ups: that of each is the other way round.

Weights are every rank's alike, and so are their gradients: sums over all rows. Who needs one has rows and columns
exchanged once for it, by PyTorch, and multiplies them twice.
"""

import torch

from . import _gradients
from ._columns import block_of
from ._exchanges import picked
from ._gradients import Gradient
from ._matrices import matrix, weight_gradient
from .groups import ranks_of

ops = torch.ops.stretto


def _exchanged(tensor, group, columns, dim):
    """All columns of this rank's rows, for this rank's columns of all rows."""
    return ops.all_to_all(tensor, group, True, columns, block_of(columns, ranks_of(group), tensor.element_size()), dim)


def _of_parameters(dy, rows, needs_weight, needs_bias, group):
    """Of a weight and a bias, by this rank's rows of both sides."""
    return (ops.all_reduce(weight_gradient(dy, rows), group) if needs_weight else None,
            ops.all_reduce(matrix(dy).sum(0), group) if needs_bias else None)


def keep_matmul_all_to_all(ctx, inputs, output):
    x, weight, _, ctx.group, ctx.dim, _ = inputs
    ctx.save_for_backward(x, weight)


def back_matmul_all_to_all(ctx, dy):
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    if not (needs_weight or needs_bias):
        dx = ops.all_to_all_matmul(dy, weight.t().contiguous(), None, ctx.group, ctx.dim)
        return dx, None, None, None, None, None
    own = _exchanged(dy, ctx.group, weight.shape[0], ctx.dim)
    return (own @ weight if needs_x else None, *_of_parameters(own, x, needs_weight, needs_bias, ctx.group),
            None, None, None)


def keep_all_to_all_matmul(ctx, inputs, output):
    x, weight, _, ctx.group, ctx.dim = inputs
    ctx.save_for_backward(x, weight)


def back_all_to_all_matmul(ctx, dy):
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    dx = None
    if needs_x:
        dx = ops.matmul_all_to_all(dy, weight.t().contiguous(), None, ctx.group, ctx.dim, x.shape[ctx.dim])
    rows = _exchanged(x, ctx.group, weight.shape[1], ctx.dim) if needs_weight else None
    return (dx, *_of_parameters(dy, rows, needs_weight, needs_bias, ctx.group), None, None)


def keep_embedding_all_to_all(ctx, inputs, output):
    ids, tables, ctx.group, ctx.mode, _ = inputs
    ctx.shape = tables.shape[1:]
    ctx.save_for_backward(ids)


def back_embedding_all_to_all(ctx, dy):
    """Added up in fp32, or wider, and rounded once."""
    ids, = ctx.saved_tensors
    (num_rows, columns), (bags, tables, _), total = ctx.shape, ids.shape, dy.shape[1]
    block = -(-total // ranks_of(ctx.group)) * columns
    own = ops.all_to_all(dy.flatten(1), ctx.group, False, bags, block)
    own = own.view(bags, tables, 1, columns).to(torch.promote_types(dy.dtype, torch.float32))
    rows, is_row = picked(ids, num_rows)
    if ctx.mode == "mean":
        own = own / is_row.sum(2).clamp(min=1)[..., None, None]
    found = own.new_zeros(tables * num_rows, columns)
    found = found.index_add(0, rows.flatten(), (own * is_row.unsqueeze(-1)).flatten(0, -2))
    return None, found.view(tables, num_rows, columns).to(dy.dtype), None, None, None


_gradients.GRADIENTS.update({
    "matmul_all_to_all": Gradient(keep_matmul_all_to_all, back_matmul_all_to_all),
    "all_to_all_matmul": Gradient(keep_all_to_all_matmul, back_all_to_all_matmul),
    "embedding_all_to_all": Gradient(keep_embedding_all_to_all, back_embedding_all_to_all),
})
