"""Gradients that have none: of what ranks exchange, which PyTorch would leave out of gradients of it."""

import torch


class _Last(torch.autograd.Function):
    """A gradient that has none."""

    @staticmethod
    def forward(ctx, op, gradient):
        ctx.op = op
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, _):
        raise RuntimeError(f"{ctx.op}: its gradients have no gradients: take them without create_graph=True")


def last(op, found):
    if isinstance(found, (list, tuple)):
        return [last(op, one) for one in found]
    return None if found is None else _Last.apply(op, found.detach().requires_grad_())


def of_first(op: str, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient, from backward() of a function whose gradients have none."""
    is_asked = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    return last(op, gradient) if is_asked else gradient
