"""Shapes: what operators check and give, of real and of fake tensors alike."""

from . import _checks
from ._activations import WEIGHTS
from ._rows import Rows, row_dim
from .groups import place, rank_of, ranks_of


def shared_rows(op, x, dim, rows, ranks):
    dim = row_dim(x, dim, op)
    total = x.shape[dim] * ranks if rows is None else rows
    return Rows(x.shape, dim, total, ranks)


def gathered_rows(x, weights, biases, dim, rows, ranks, op="all_gather_matmul"):
    _checks.matching(op, x)
    _checks.weights(op, x, x.shape[-1], weights, biases)
    return shared_rows(op, x, dim, rows, ranks)


def scattered_rows(x, weight, bias, dim, ranks, op="matmul_reduce_scatter"):
    _checks.matching(op, x)
    _checks.weights(op, x, x.shape[-1], [weight], [bias] if bias is not None else [])
    dim = row_dim(x, dim, op)
    return Rows(x.shape, dim, x.shape[dim], ranks)


def whole_rows(op, x, weights, biases):
    _checks.matching(op, x)
    _checks.weights(op, x, x.shape[-1], weights, biases)


def normed(x, weight, residual, norm_weight, eps, op="matmul_all_reduce_add_rms_norm"):
    whole_rows(op, x, [weight], [])
    shape = (*x.shape[:-1], weight.shape[0])
    _checks.matching(op, x, residual=residual, norm_weight=norm_weight)
    _checks.require(tuple(residual.shape) == shape, op,
                    f"residual is {_checks.shape_text(residual)}; [{', '.join(map(str, shape))}] is what "
                    "comes")
    _checks.require(tuple(norm_weight.shape) == shape[-1:], op,
                    f"norm_weight is {_checks.shape_text(norm_weight)}; [{shape[-1]}] was expected")
    _checks.require(eps > 0, op, f"eps is {eps}; a number above 0 was expected")
    return shape


def mlp_rows(x, ups, up_biases, down, activation, sequence_parallel, dim, ranks, op="mlp"):
    _checks.require(activation in WEIGHTS, op,
                    f"activation is {activation!r}; it is one of {', '.join(WEIGHTS)}")
    _checks.require(len(ups) == WEIGHTS[activation], op,
                    f"{len(ups)} weights before {activation}, which takes {WEIGHTS[activation]}")
    whole_rows(op, x, ups, up_biases)
    widths = [up.shape[0] for up in ups]
    _checks.require(all(width == widths[0] for width in widths), op,
                    f"weights before {activation} have {widths} rows: as many each were expected")
    _checks.matching(op, x, down=down)
    _checks.require(tuple(down.shape) == (x.shape[-1], ups[0].shape[0]), op,
                    f"down is {_checks.shape_text(down)}; [{x.shape[-1]}, {ups[0].shape[0]}] goes with x "
                    f"{_checks.shape_text(x)} and {_checks.shape_text(ups[0])} before it")
    dim = row_dim(x, dim, op)
    return Rows(x.shape, dim, x.shape[dim] * (ranks if sequence_parallel else 1), ranks)


# Fake kernels: of the same arguments, a tensor of the right shape. Results have no gaps.

def fake_all_gather_matmul(x, weights, biases, group_name, dim=0, rows=None, keep_gathered=False):
    many = gathered_rows(x, weights, biases, dim, rows, ranks_of(group_name))
    columns = sum(weight.shape[0] for weight in weights)
    return x.new_empty(many.shape(many.total, columns)), many.gathered_like(x, keep_gathered)


def fake_matmul_reduce_scatter(x, weight, bias, group_name, dim=0):
    many = scattered_rows(x, weight, bias, dim, ranks_of(group_name))
    return x.new_empty(many.shape(many.own(rank_of(group_name)), weight.shape[0]))


def fake_matmul_all_reduce(x, weight, bias, group_name):
    whole_rows("matmul_all_reduce", x, [weight], [bias] if bias is not None else [])
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def fake_matmul_all_reduce_add_rms_norm(x, weight, residual, norm_weight, eps, group_name):
    shape = normed(x, weight, residual, norm_weight, eps)
    return x.new_empty(shape), x.new_empty(shape)


def fake_mlp(x, ups, up_biases, down, activation, group_name, sequence_parallel=False, dim=0):
    mlp_rows(x, ups, up_biases, down, activation, sequence_parallel, dim, ranks_of(group_name))
    return x.new_empty(x.shape)


def fake_column_matmul(x, weights, biases, group_name):
    whole_rows("column_matmul", x, weights, biases)
    return x.new_empty((*x.shape[:-1], sum(weight.shape[0] for weight in weights)))


def fake_all_gather(x, group_name, dim=0, rows=None):
    many = shared_rows("all_gather", x, dim, rows, ranks_of(group_name))
    return x.new_empty(many.shape(many.total, x.shape[-1]))


def fake_all_gather_matmul_back(x, weight, group_name, dim=0, rows=None):
    many = shared_rows("all_gather_matmul", x, dim, rows, ranks_of(group_name))
    return x.new_empty(many.shape(many.total, weight.shape[1])), x.new_empty(many.shape(many.total, x.shape[-1]))


def fake_matmul_all_reduce_back(x, weights, group_name):
    return x.new_empty((*x.shape[:-1], weights[0].shape[1]))


def fake_matmul_reduce_scatter_back(x, weights, group_name, dim=0):
    rank, ranks = place(group_name)
    many = Rows(x.shape, dim, x.shape[dim], ranks)
    return x.new_empty(many.shape(many.own(rank), weights[0].shape[1]))
