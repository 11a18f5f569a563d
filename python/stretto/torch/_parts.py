"""Tensors below one another as one."""

import math

import torch
import torch.nn.functional as F


def are_behind(parts):
    """Whether each lies right behind the one before it, as parts of one tensor do."""
    first = parts[0]
    at = first.data_ptr()
    for part in parts:
        if (not part.is_contiguous() or part.data_ptr() != at or
                part.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()):
            return False
        at += part.numel() * part.element_size()
    return True


def joined(parts):
    """Weights or biases below one another: without a copy where they lie so."""
    if len(parts) == 1:
        return parts[0].contiguous()
    if not are_behind(parts):
        return torch.cat(parts)
    shape = sum(part.shape[0] for part in parts), *parts[0].shape[1:]
    # A part of one row has no gaps, whatever its stride is.
    return parts[0].as_strided(shape, [math.prod(shape[dim + 1:]) for dim in range(len(shape))])


def products(x, weights, biases, out=None):
    """x @ weight.T + bias of all weights, beside one another: [..., the sum of their rows]. Weights that lie apart are
    multiplied one by one, and not copied. `out` has no gaps.
    """
    if are_behind(weights):
        weights, biases = [joined(weights)], [joined(biases)] if biases else []
        if out is None:
            return F.linear(x, weights[0], *biases)
    sizes = [weight.shape[0] for weight in weights]
    made = x.new_empty((*x.shape[:-1], sum(sizes))) if out is None else out
    rows = x.flatten(0, -2)
    for weight, bias, part in zip(weights, biases or [None] * len(sizes), made.flatten(0, -2).split(sizes, -1)):
        torch.mm(rows, weight.t(), out=part) if bias is None else torch.addmm(bias, rows, weight.t(), out=part)
    return made


@torch.no_grad()
def lay_behind(parts):
    """Moves parameters below one another, where joined() takes them without a copy. They stay the parameters that they
    are; those that differ in more than their rows stay where they lie.
    """
    alike = {(type(part.data), part.dtype, part.device, part.shape[1:]) for part in parts}
    if len(alike) > 1 or parts[0].is_meta or type(parts[0].data) is not torch.Tensor or are_behind(parts):
        return
    for part, place in zip(parts, torch.cat(list(parts)).split([len(part) for part in parts])):
        part.data = place
