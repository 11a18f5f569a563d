"""What stands between the products of an MLP, and its gradient: fp32 inside, one rounding, as in graphs."""

import torch
import torch.nn.functional as F

WEIGHTS = {"swiglu": 2, "gelu": 1, "silu": 1}  # name -> products before it


def _wide(tensor):
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def activate(activation, made):
    """silu(g) * u of two products, gelu in its tanh form or silu of one."""
    first = _wide(made[0])
    if activation == "gelu":
        return F.gelu(first, approximate="tanh").to(made[0].dtype)
    value = F.silu(first, inplace=first is not made[0])
    if activation == "silu":
        return value.to(made[0].dtype)
    # The product is computed in the wider of both types, and rounded where it is written.
    return torch.mul(value, made[1], out=torch.empty_like(made[1]))


def activate_back(activation, made, gradient):
    """The gradients of what activate() takes."""
    first, wide = _wide(made[0]), _wide(gradient)
    if activation == "gelu":
        found = [torch.ops.aten.gelu_backward(wide, first, approximate="tanh")]
    else:
        sigmoid = torch.sigmoid(first)
        slope = sigmoid * (1 + first * (1 - sigmoid))
        found = [wide * slope]
        if activation == "swiglu":
            found = [found[0] * _wide(made[1]), wide * first * sigmoid]
    return [one.to(made[0].dtype) for one in found]


class Activated(torch.autograd.Function):
    """activate() of products, which are all that is kept of it."""

    @staticmethod
    def forward(ctx, activation, *made):
        ctx.activation = activation
        ctx.save_for_backward(*made)
        return activate(activation, made)

    @staticmethod
    def backward(ctx, gradient):
        return None, *activate_back(ctx.activation, ctx.saved_tensors, gradient)
