"""Gradients of x and of weights by one operator each: what ranks exchange for the one travels beside the product for
the other, with weights as they lie.
"""

import torch

from . import _collectives, _kernels, _shapes
from ._beside import Beside
from ._matrices import matrix, weight_gradient
from ._parts import joined
from ._rows import Rows
from .groups import find
from .report import count_fallback

BESIDE = "beside the product of another gradient"
# Of a rank, at least, whose product hides a gather: of fewer rows it takes longer in parts than the gather.
FEWEST_OWN_ROWS = 1024


def goes_beside(dy, group):
    """Whether collectives run beside products. Where nothing runs beside anything, on CPUs, Stretto has it in one."""
    return dy.is_cuda and group.ranks > 1 and dy.numel() > 0


def column_matmul_backward(dy, x, weights, group_name):
    """Of x [..., K], a sum over the ranks, and of weights [N, K] below one another."""
    group = find(group_name)
    if not goes_beside(dy, group):
        return _kernels.matmul_all_reduce_back(dy, weights, group_name), weight_gradient(dy, x)
    count_fallback("matmul_all_reduce", BESIDE)
    terms = matrix(dy) @ joined(weights)
    sums = Beside(_collectives.all_reduce, group, terms, terms, 2 * dy.numel() * x.shape[-1])
    dweights = sums.multiply(matrix(dy).t(), matrix(x))
    return sums.wait().view(x.shape), dweights


def all_gather_matmul_backward(dy, x, weights, group_name, dim=0, is_gathered=False):
    """Of a rank's own rows of x and of weights [N, K] below one another, of dy [..., N] of all rows. x is the rank's
    own, or has all ranks' where it `is_gathered`.
    """
    group = find(group_name)
    total = dy.shape[dim]
    if not goes_beside(dy, group):
        dx = _kernels.matmul_reduce_scatter_back(dy, weights, group_name, dim)
        whole = x if is_gathered or group.ranks == 1 else _kernels.all_gather(x, group_name, dim, total)
        return dx, weight_gradient(dy, whole)
    count_fallback("matmul_reduce_scatter", BESIDE)
    many, flops = Rows((*dy.shape[:-1], x.shape[-1]), dim, total, group.ranks), 2 * dy.numel() * x.shape[-1]
    if is_gathered:
        terms, whole = dy @ joined(weights), x
    else:
        rows = _begin_gather(group, many, x, flops)
        terms = rows.multiply(matrix(dy), joined(weights)).view(*dy.shape[:-1], x.shape[-1])
        whole = many.unflat(rows.wait(), total)
    terms = many.flat(terms, many.block * group.ranks).contiguous()
    own = Beside(_collectives.reduce_scatter, group, terms, _collectives.room_to_scatter(group, terms), flops)
    dweights = own.multiply(matrix(dy).t(), matrix(whole))
    return many.unflat(own.wait(), many.own(group.rank)), dweights


def all_gather_matmul_back(x, weight, group_name, dim=0, rows=None):
    """All ranks' rows x [..., N] times a weight [N, K], and these rows. Own ones are multiplied beside the gather."""
    group = find(group_name)
    many = _shapes.shared_rows("all_gather_matmul", x, dim, rows, group.ranks)
    if not goes_beside(x, group) or many.count < FEWEST_OWN_ROWS * group.ranks:
        return _kernels.all_gather_matmul_back(x, weight, group_name, dim, rows)
    count_fallback("all_gather_matmul", BESIDE)
    gathered = _begin_gather(group, many, x, 2 * x.numel() * weight.shape[1])
    made = x.new_empty((many.count, weight.shape[1]))
    own = many.count // group.ranks
    first, last = own * group.rank, own * (group.rank + 1)
    gathered.multiply(many.flat(x, many.block), weight, made[first:last])
    whole = gathered.wait()
    for begin, end in ((0, first), (last, many.count)):
        if begin < end:
            torch.mm(whole[begin:end], weight, out=made[begin:end])
    return many.unflat(made, many.total), many.unflat(whole, many.total)


def _begin_gather(group, many, x, flops):
    own = many.flat(x, many.block).contiguous()
    return Beside(_collectives.all_gather, group, own, _collectives.room_to_gather(group, own), flops)


# What comes, for torch.compile. Results have no gaps.

def _fake_weights(dy, x):
    return x.new_empty((dy.shape[-1], x.shape[-1]))


def fake_column_matmul_backward(dy, x, weights, group_name):
    return x.new_empty(x.shape), _fake_weights(dy, x)


def fake_all_gather_matmul_backward(dy, x, weights, group_name, dim=0, is_gathered=False):
    return _shapes.fake_matmul_reduce_scatter_back(dy, weights, group_name, dim), _fake_weights(dy, x)


fake_all_gather_matmul_back = _shapes.fake_all_gather_matmul_back
