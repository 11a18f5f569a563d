"""Gradients: that of a gather is a scatter, and the other way round; of a weight, with all ranks' rows.

Gradients of what every rank has whole (a result of matmul_all_reduce, a bias or a norm's weight that all
ranks have alike) are whole on every rank too, and expected to be.
"""

import copy

import torch

from ._activations import activate, activate_back
from ._last import last, of_first
from ._matrices import matrix, weight_gradient
from .groups import ranks_of

ops = torch.ops.stretto


def _everyone(x, group, dim, rows=None):
    """All ranks' rows."""
    return x if ranks_of(group) == 1 else ops.all_gather(x, group, dim, rows)


def _everyones_product(x, weight, group, dim, rows=None):
    """All ranks' rows by a weight as it lies, and these rows."""
    return (x @ weight, x) if ranks_of(group) == 1 else ops.all_gather_matmul_back(x, weight, group, dim, rows)


def _split(gradient, parts, needed):
    """A gradient of joined weights or biases, part by part; None where it is not needed."""
    pieces = gradient.split([part.shape[0] for part in parts])
    return [piece if need else None for piece, need in zip(pieces, needed)]


def _nothing(parts):
    return [None] * len(parts)


def keep_all_gather_matmul(ctx, inputs, output):
    x, weights, biases, ctx.group, ctx.dim, ctx.rows, ctx.is_kept = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.weights = len(weights)
    ctx.save_for_backward(x, output[1], *weights, *biases)


def back_all_gather_matmul(ctx, dy, _):
    x, gathered, *rest = ctx.saved_tensors
    weights, biases = rest[:ctx.weights], rest[ctx.weights:]
    needs_x, needs_weights, needs_biases = ctx.needs_input_grad[:3]
    dx, dweights, dbiases = None, _nothing(weights), _nothing(biases)
    if needs_x and any(needs_weights):
        dx, joint = ops.all_gather_matmul_backward(dy, gathered if ctx.is_kept else x, weights, ctx.group, ctx.dim,
                                                   ctx.is_kept)
        dweights = _split(joint, weights, needs_weights)
    elif needs_x:
        dx = ops.matmul_reduce_scatter_back(dy, weights, ctx.group, ctx.dim)
    elif any(needs_weights):
        if not ctx.is_kept:
            gathered = _everyone(x, ctx.group, ctx.dim, dy.shape[ctx.dim])
        dweights = _split(weight_gradient(dy, gathered), weights, needs_weights)
    if any(needs_biases):
        dbiases = _split(matrix(dy).sum(0), biases, needs_biases)
    return dx, dweights, dbiases, None, None, None, None


def keep_matmul_reduce_scatter(ctx, inputs, output):
    x, weight, _, ctx.group, ctx.dim = inputs
    ctx.save_for_backward(x, weight)


def back_matmul_reduce_scatter(ctx, dy):
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    # Who needs all rows of dy anyway has them gathered once.
    if needs_x:
        dx, whole = _everyones_product(dy, weight, ctx.group, ctx.dim, x.shape[ctx.dim])
    else:
        dx, whole = None, _everyone(dy, ctx.group, ctx.dim, x.shape[ctx.dim])
    return (dx, weight_gradient(whole, x) if needs_weight else None,
            matrix(whole).sum(0) if needs_bias else None, None, None)


class _Shared(torch.autograd.Function):
    """What every rank has alike, for products with what each has of its own: its gradient is the sum of all ranks'."""

    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        total = ops.all_reduce(gradient.detach().contiguous(), ctx.group)
        return None, None, of_first(ctx.op, total)


def _shared(op, group, tensor):
    return _Shared.apply(op, group, tensor) if torch.is_grad_enabled() and ranks_of(group) > 1 else tensor


def keep_matmul_all_reduce(ctx, inputs, output):
    x, weight, _, ctx.group = inputs
    ctx.save_for_backward(x, weight)


def back_matmul_all_reduce(ctx, dy):
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    own = _shared("matmul_all_reduce", ctx.group, dy)
    return (own @ weight if needs_x else None, weight_gradient(own, x) if needs_weight else None,
            matrix(dy).sum(0) if needs_bias else None, None)


def keep_column_matmul(ctx, inputs, output):
    x, weights, biases, ctx.group = inputs
    ctx.weights = len(weights)
    ctx.save_for_backward(x, *weights, *biases)


def back_column_matmul(ctx, dy):
    x, *rest = ctx.saved_tensors
    weights, biases = rest[:ctx.weights], rest[ctx.weights:]
    needs_x, needs_weights, needs_biases = ctx.needs_input_grad[:3]
    dx, dweights, dbiases = None, _nothing(weights), _nothing(biases)
    if needs_x and any(needs_weights):
        dx, joint = ops.column_matmul_backward(dy, x, weights, ctx.group)
        dweights = _split(joint, weights, needs_weights)
    elif needs_x:
        dx = ops.matmul_all_reduce_back(dy, weights, ctx.group)
    elif any(needs_weights):
        dweights = _split(weight_gradient(dy, x), weights, needs_weights)
    if any(needs_biases):
        dbiases = _split(matrix(dy).sum(0), biases, needs_biases)
    return dx, dweights, dbiases, None


def keep_norm(ctx, inputs, output):
    x, weight, _, norm_weight, ctx.eps, ctx.group = inputs
    ctx.save_for_backward(x, weight, norm_weight, output[1])


def back_norm(ctx, dnormed, dtotal):
    x, weight, norm_weight, total = ctx.saved_tensors
    wide_type = torch.promote_types(total.dtype, torch.float32)
    wide, scale, dwide = total.to(wide_type), norm_weight.to(wide_type), dnormed.to(wide_type)
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + ctx.eps)
    unit = wide * inverse
    scaled = dwide * scale
    ds = inverse * (scaled - unit * (scaled * unit).mean(-1, keepdim=True)) + dtotal.to(wide_type)
    ds = ds.to(x.dtype)
    dscale = matrix(dwide * unit).sum(0).to(norm_weight.dtype)
    own = _shared("matmul_all_reduce_add_rms_norm", ctx.group, ds)
    return own @ weight, weight_gradient(own, x), ds, dscale, None, None


def keep_mlp(ctx, inputs, output):
    x, ups, biases, down, ctx.activation, ctx.group, ctx.is_shared, ctx.dim = inputs
    ctx.ups = len(ups)
    ctx.save_for_backward(x, down, *ups, *biases)


def back_mlp(ctx, dy):
    """What stood between the products is not kept: it is computed again."""
    x, down, *rest = ctx.saved_tensors
    ups, biases = rest[:ctx.ups], rest[ctx.ups:]
    whole = x
    if ctx.is_shared:
        dhidden, dy = _everyones_product(dy, down, ctx.group, ctx.dim)
    else:
        dhidden = dy @ down
    if ctx.is_shared and ranks_of(ctx.group) > 1:
        made, whole = ops.all_gather_matmul(x, ups, biases, ctx.group, ctx.dim, None, True)
        made = made.split([len(up) for up in ups], -1)
    else:
        made = [torch.nn.functional.linear(whole, up, bias) for up, bias in zip(ups, biases or _nothing(ups))]
    hidden = activate(ctx.activation, made)
    dmade = activate_back(ctx.activation, made, dhidden)
    joint = torch.cat(dmade, -1)
    if ctx.is_shared:
        dx, dups = ops.all_gather_matmul_backward(joint, whole, ups, ctx.group, ctx.dim, True)
    else:
        dx, dups = ops.column_matmul_backward(joint, whole, ups, ctx.group)
    return (dx, _split(dups, ups, [True] * len(ups)), [matrix(one).sum(0) for one in dmade[:len(biases)]],
            weight_gradient(dy, hidden), None, None, None, None)


def keep_moe(ctx, inputs, output):
    *tensors, ctx.group, ctx.is_dealt, ctx.rows, ctx.is_shared, ctx.experts = inputs
    ctx.save_for_backward(*tensors)


def back_moe(ctx, dy):
    dx, dweights, *dexperts = ops.moe_backward(dy, *ctx.saved_tensors, ctx.group, ctx.is_dealt, ctx.rows, ctx.is_shared,
                                               ctx.experts)
    return dx, None, dweights, *dexperts, *[None] * 5


def keep_moe_with_router(ctx, inputs, output):
    (*tensors, _, ctx.group, _, ctx.scores, ctx.normalise, ctx.scale, _, _, ctx.is_dealt, ctx.rows) = inputs
    _, ids, weights = output
    ctx.mark_non_differentiable(ids)
    ctx.save_for_backward(*tensors, ids, weights)


def back_moe_with_router(ctx, dy, _, dweights):
    found = ops.moe_with_router_backward(dy, dweights, *ctx.saved_tensors, ctx.group, ctx.scores, ctx.normalise,
                                         ctx.scale, ctx.is_dealt, ctx.rows)
    return *found, *[None] * 10


class Gradient:
    """What the dispatcher is told of an operator: what to keep of a call, and its gradients.

    is_of_products  they are made of PyTorch's products, and of what every rank has alike, and so have gradients. Of
                    others PyTorch would leave out what ranks exchange
    """

    def __init__(self, keep, back, is_of_products=False, op=None):
        self.keep, self._back, self._is_of_products = keep, back, is_of_products
        self._op = op or back.__name__.removeprefix("back_")

    def backward(self, ctx, *gradients):
        # Arguments that are as the schema has them by default are not passed, and have no gradients.
        count = len(ctx.needs_input_grad)
        if self._is_of_products or not torch.is_grad_enabled():
            return self._back(ctx, *gradients)[:count]
        with torch.no_grad():
            found = self._back(ctx, *gradients)[:count]
        return tuple(last(self._op, found))


GRADIENTS = {
    "all_gather_matmul": Gradient(keep_all_gather_matmul, back_all_gather_matmul),
    "matmul_reduce_scatter": Gradient(keep_matmul_reduce_scatter, back_matmul_reduce_scatter),
    "matmul_all_reduce": Gradient(keep_matmul_all_reduce, back_matmul_all_reduce, is_of_products=True),
    "column_matmul": Gradient(keep_column_matmul, back_column_matmul),
    "matmul_all_reduce_add_rms_norm": Gradient(keep_norm, back_norm, is_of_products=True),
    "mlp": Gradient(keep_mlp, back_mlp),
    "moe": Gradient(keep_moe, back_moe),
    "moe_with_router": Gradient(keep_moe_with_router, back_moe_with_router),
}


def arguments(op, more, tensors, seat):
    """Tensors of a call, or what stands for each, as the operator's schema has them; other arguments as they mostly
    are, `more` says the rest.
    """
    if op == "all_gather_matmul":
        return tensors[0], tensors[1:1 + more], tensors[1 + more:], seat, 0, None, False
    if op == "column_matmul":
        return tensors[0], tensors[1:1 + more], tensors[1 + more:], seat
    if op in ("matmul_reduce_scatter", "all_to_all_matmul"):
        return (*tensors, None)[:3] + (seat, 0)
    if op == "matmul_all_reduce":
        return (*tensors, None)[:3] + (seat,)
    if op == "matmul_all_reduce_add_rms_norm":
        return *tensors, more, seat
    if op == "matmul_all_to_all":
        return (*tensors, None)[:3] + (seat, 0, None)
    if op == "embedding_all_to_all":
        return *tensors, seat, *more[:2]
    if op == "mlp":
        activation, is_shared, ups = more
        return tensors[0], tensors[1:1 + ups], tensors[1 + ups:-1], tensors[-1], activation, seat, is_shared, 0
    if op == "moe_with_router":
        return (*tensors, None)[:6] + (seat, *more)
    return *tensors, seat, *more  # moe


class Kept:
    """What autograd knows of a call that the dispatcher has not made: stands for the dispatcher's context."""

    @classmethod
    def of(cls, op, seat, more, tensors, made):
        """One, for all calls of the same `more`, and the tensors that are to be saved: of such calls keep() may note
        what `more` says, and nothing else.
        """
        kept = cls()
        kept.op, kept.seat, kept.more = op, seat, more
        output = made[0] if len(made) == 1 else made
        # Nobody has gathered rows here: they are not looked at, and x is saved anyway.
        GRADIENTS[op].keep(kept, arguments(op, more, tensors, seat),
                           (made[0], tensors[0]) if op == "all_gather_matmul" else output)
        saved, kept.saved_tensors = kept.saved_tensors, None
        return kept, saved

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_):
        """Of what Kept stands for every result has a gradient."""

    def gradients(self, saved, needed, gradients):
        """Of each tensor of the call. `needed` says of which."""
        context = copy.copy(self)
        context.saved_tensors = saved
        context.needs_input_grad = arguments(self.op, self.more, needed, self.seat)
        more = (None,) if self.op == "all_gather_matmul" else ()
        found = GRADIENTS[self.op].backward(context, *gradients, *more)
        flat = [one for part in found for one in (part if isinstance(part, (list, tuple)) else (part,))]
        return flat[:len(needed)]
