"""What operators do with real tensors, on CPUs and GPUs: check, lay out as matrices, serve, lay back."""

import torch
import torch.nn.functional as F

from . import _calls, _checks, _collectives, _serve, _shapes
from ._activations import activate
from ._parts import joined, products
from ._records import seen
from ._rows import Rows
from .groups import find
from .report import REORDERED, count_copy, count_fallback


@seen
def all_gather_matmul(x, weights, biases, group_name, dim=0, rows=None, keep_gathered=False, out=None,
                      falls_back=True):
    group = find(group_name)
    many = _shapes.gathered_rows(x, weights, biases, dim, rows, group.ranks)
    own = many.own(group.rank)
    _checks.require(x.shape[many.dim] == own, "all_gather_matmul",
                    f"x has {x.shape[many.dim]} of dimension {many.dim}; of rows={many.total} rank "
                    f"{group.rank} of {group.ranks} has {own}")
    weight, bias = joined(weights), joined(biases) if biases else None
    target = target_of("all_gather_matmul", out, many.shape(many.total, weight.shape[0]), x=x,
                     **_numbered("weight", weights), **_numbered("bias", biases))
    if many.count == 0:
        nothing = x.new_empty(many.shape(many.total, weight.shape[0]))
        return put(target, nothing), many.gathered_like(x, keep_gathered)
    a = many.flat(x, many.block).contiguous()
    is_kept = keep_gathered and group.ranks > 1

    def by_torch():
        gathered = _collectives.all_gather(group, a)
        y = F.linear(gathered, weight, bias)
        return (y, gathered) if is_kept else (y,)

    call = _calls.gather_matmul(many.count, a, weight.contiguous(), bias, group.ranks, is_kept).of_rows(many)
    y, *gathered = _serve.run(call, group, by_torch if falls_back else None, given={"a": x, "b": weights},
                              targets={"out": target} if many.is_plain() else {})
    if is_kept:
        kept = many.unflat(gathered[0], many.total)
    else:  # one rank has all rows, and no result shares memory with x
        kept = x.clone(memory_format=torch.contiguous_format) if keep_gathered else many.gathered_like(x, False)
    return put(target, laid_back(call.op, many, y, many.total)), kept


@seen
def matmul_reduce_scatter(x, weight, bias, group_name, dim=0, out=None, falls_back=True):
    group = find(group_name)
    many = _shapes.scattered_rows(x, weight, bias, dim, group.ranks)
    own = many.own(group.rank)
    target = target_of("matmul_reduce_scatter", out, many.shape(own, weight.shape[0]), x=x, weight=weight,
                     bias=bias)
    if many.count == 0:
        return put(target, x.new_empty(many.shape(own, weight.shape[0])))
    a = many.flat(x, many.block * group.ranks).contiguous()
    call = _calls.matmul_scatter(a, weight.contiguous(), group.ranks).of_rows(many, bias=_calls.given(bias))

    def by_torch():
        return (_collectives.reduce_scatter(group, F.linear(a, weight)),)

    y, = _serve.run(call, group, by_torch if falls_back else None, given={"a": x, "b": weight},
                    targets={"out": target} if many.is_plain() else {})
    return put(target, biased(laid_back(call.op, many, y, own), bias))


@seen
def matmul_all_reduce(x, weight, bias, group_name, out=None):
    group = find(group_name)
    _shapes.whole_rows("matmul_all_reduce", x, [weight], [bias] if bias is not None else [])
    shape = (*x.shape[:-1], weight.shape[0])
    target = target_of("matmul_all_reduce", out, shape, x=x, weight=weight, bias=bias)
    a = x.flatten(0, -2).contiguous()
    if a.shape[0] == 0:
        return put(target, x.new_empty(shape))
    call = _calls.matmul_reduce(a, weight.contiguous(), group.ranks).of_rows(None, bias=_calls.given(bias))
    y, = _serve.run(call, group, lambda: (_collectives.all_reduce(group, F.linear(a, weight)),),
                    given={"a": x, "b": weight}, targets={"out": target})
    return put(target, biased(y.reshape(shape), bias))


@seen
def matmul_all_reduce_add_rms_norm(x, weight, residual, norm_weight, eps, group_name, out=None, total=None):
    group = find(group_name)
    op, shape = "matmul_all_reduce_add_rms_norm", _shapes.normed(x, weight, residual, norm_weight, eps)
    inputs = {"x": x, "weight": weight, "residual": residual, "norm_weight": norm_weight}
    targets = {"out": target_of(op, out, shape, name="out[0]", **inputs),
               "s": target_of(op, total, shape, name="out[1]", **inputs, **{"out[0]": out})}
    a = x.flatten(0, -2).contiguous()
    if a.shape[0] == 0:
        return tuple(put(target, x.new_empty(shape)) for target in targets.values())
    r = residual.flatten(0, -2).contiguous()

    def in_parts():
        total = matmul_all_reduce(a, weight, None, group_name).add_(r)
        wide = total.float() if total.dtype in (torch.bfloat16, torch.float16) else total
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * norm_weight.to(wide.dtype)
        return normed.to(x.dtype), total

    call = _calls.matmul_norm(a, weight.contiguous(), r, norm_weight.contiguous(), eps, group.ranks)
    made = _serve.run(call, group, in_parts, is_in_parts=True, targets=targets,
                      given={"a": x, "b": weight, "r": residual, "w": norm_weight})
    return tuple(put(target, one.reshape(shape)) for target, one in zip(targets.values(), made))


@seen
def mlp(x, ups, up_biases, down, activation, group_name, sequence_parallel=False, dim=0, out=None):
    group = find(group_name)
    many = _shapes.mlp_rows(x, ups, up_biases, down, activation, sequence_parallel, dim, group.ranks)
    target = target_of("mlp", out, x.shape, x=x, down=down, **_numbered("up", ups), **_numbered("up_bias", up_biases))
    if x.numel() == 0:
        return put(target, x.new_empty(x.shape))
    a = (many.flat(x, many.block) if sequence_parallel else x.flatten(0, -2)).contiguous()
    rows = a.shape[0] * (group.ranks if sequence_parallel else 1)

    def in_parts():
        if sequence_parallel:
            made = all_gather_matmul(a, ups, up_biases, group_name)[0].chunk(len(ups), -1)
        else:
            made = [F.linear(a, *one) for one in zip(ups, up_biases or [None] * len(ups))]
        hidden = activate(activation, made)
        reduce = matmul_reduce_scatter if sequence_parallel else matmul_all_reduce
        return (reduce(hidden, down, None, group_name),)

    call = _calls.mlp(rows, a, [up.contiguous() for up in ups], up_biases, down.contiguous(),
                      activation, sequence_parallel, group.ranks).of_rows(many if sequence_parallel else None)
    y, = _serve.run(call, group, in_parts, is_in_parts=True,
                    given={"x": x, "wd": down, **dict(zip(("wg", "wu"), ups))},
                    targets={"down": target} if not sequence_parallel or many.is_plain() else {})
    return put(target, laid_back(call.op, many, y, x.shape[many.dim]) if sequence_parallel else y.reshape(x.shape))


def laid_back(op, many, matrix, size):
    """Rows of a result in the order of its dimensions."""
    made = many.unflat(matrix, size)
    if made.numel() and made.data_ptr() != matrix.data_ptr():
        count_copy(op, "out", REORDERED, made.numel() * made.element_size())
    return made


def pays(x, rows, columns, ranks):
    """Whether what travels of so many rows of all ranks takes longer than to turn a weight, which Stretto reads row by
    row: PyTorch's copy turns no more bytes in a second than a link carries, and reads and writes them. `columns` are
    those of the weight's two sizes by which rows do not travel.
    """
    return not x.is_cuda or rows * (ranks - 1) >= 2 * columns * ranks


TURNED = "to turn the weight would take longer than what travels"


def _back(op, x, weights, group, by_stretto, collective):
    """The sum over ranks of x [..., N] times weights [N, K] below one another, each rank's part of N."""
    if group.ranks > 1 and pays(x, x.shape[:-1].numel(), x.shape[-1], group.ranks):
        return by_stretto(joined(weights).t().contiguous())
    y = x @ joined(weights)
    if group.ranks == 1:
        return y
    count_fallback(op, TURNED)
    return collective(y)


def matmul_all_reduce_back(x, weights, group_name):
    group = find(group_name)
    return _back("matmul_all_reduce", x, weights, group,
                 lambda turned: matmul_all_reduce(x, turned, None, group_name),
                 lambda y: _collectives.all_reduce(group, y, y))


def matmul_reduce_scatter_back(x, weights, group_name, dim=0):
    group = find(group_name)

    def scattered(y):
        many = Rows(y.shape, dim, y.shape[dim], group.ranks)
        own = _collectives.reduce_scatter(group, many.flat(y, many.block * group.ranks).contiguous())
        return many.unflat(own, many.own(group.rank))

    return _back("matmul_reduce_scatter", x, weights, group,
                 lambda turned: matmul_reduce_scatter(x, turned, None, group_name, dim), scattered)


def all_gather_matmul_back(x, weight, group_name, dim=0, rows=None):
    """All ranks' rows x [..., N] times a weight [N, K], and these rows."""
    group = find(group_name)
    many = _shapes.shared_rows("all_gather_matmul", x, dim, rows, group.ranks)
    if pays(x, many.count, weight.shape[1], group.ranks):
        return all_gather_matmul(x, [weight.t().contiguous()], [], group_name, dim, rows, True)
    count_fallback("all_gather_matmul", TURNED)
    whole = all_gather(x, group_name, dim, rows)
    return whole @ weight, whole


def column_matmul(x, weights, biases, group_name, out=None):
    _shapes.whole_rows("column_matmul", x, weights, biases)
    shape = *x.shape[:-1], sum(weight.shape[0] for weight in weights)
    target = target_of("column_matmul", out, shape, x=x, **_numbered("weight", weights), **_numbered("bias", biases))
    return products(x, weights, biases, target)


def all_gather(x, group_name, dim=0, rows=None):
    group = find(group_name)
    many = _shapes.shared_rows("all_gather", x, dim, rows, group.ranks)
    if many.count == 0:
        return x.new_empty(many.shape(many.total, x.shape[-1]))
    return many.unflat(_collectives.all_gather(group, many.flat(x, many.block).contiguous()), many.total)


def _numbered(name, many):
    return {name if len(many) == 1 else f"{name} {index}": one for index, one in enumerate(many)}


def target_of(op, out, shape, dtype=None, name="out", **inputs):
    """The caller's `out`, if it can be written with these inputs; None where there is none. It has the type of the
    first of them, or `dtype`.
    """
    if out is not None:
        first = next(iter(inputs.values()))
        _checks.output(op, name, out, shape, dtype or first.dtype, first.device)
        _checks.apart(op, name, out, inputs)
    return out


def put(target, result):
    """The result, written to the target where there is one."""
    if target is None:
        return result
    if target.data_ptr() != result.data_ptr():
        target.copy_(result)
    elif not target.is_inference():  # autograd may have kept what was there
        torch.autograd.graph.increment_version(target)
    return target


def biased(y, bias):
    return y if bias is None else y.add_(bias)
