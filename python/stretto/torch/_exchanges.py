"""All-to-alls beside products, and look-ups: kernels of torch.ops.stretto, and their fakes."""

import itertools

import torch
import torch.nn.functional as F

from . import _calls, _checks, _collectives, _columns, _serve
from ._kernels import biased, laid_back, put, target_of
from ._records import seen
from ._rows import Rows, row_dim
from .groups import find, place

MODES = {"sum": "embedding-a2a", "mean": "embedding-a2a-mean"}


def _dealt(op, columns, ranks, x, what):
    block = _columns.block_of(columns, ranks, x.element_size())
    _checks.require(columns > block * (ranks - 1), op,
                    f"{columns} columns of {what} are dealt to {ranks} ranks in blocks of {block}, which leaves none "
                    f"for the last: take more, or a multiple of {ranks}")
    return block


def product_rows(op, x, weight, bias, dim, rows, ranks):
    """Rows, and the block of dealt columns, of a product before an all-to-all."""
    _checks.matching(op, x)
    _checks.weights(op, x, x.shape[-1], [weight], [bias] if bias is not None else [])
    dim = row_dim(x, dim, op)
    many = Rows(x.shape, dim, x.shape[dim] * ranks if rows is None else rows, ranks)
    return many, _dealt(op, weight.shape[0], ranks, x, "weight.T")


def exchanged_rows(op, x, weight, bias, dim, rank, ranks):
    """The same of a product behind one."""
    _checks.matching(op, x, weight=weight)
    _checks.require(weight.dim() == 2, op, f"weight is {_checks.shape_text(weight)}; [N, K] was expected")
    columns = weight.shape[1]
    block = _dealt(op, columns, ranks, x, "x")
    own = _columns.own(columns, block, rank)
    _checks.require(x.shape[-1] == own, op,
                    f"x is {_checks.shape_text(x)}; of {columns} columns, as weight {_checks.shape_text(weight)} has, "
                    f"rank {rank} of {ranks} has {own}")
    if bias is not None:
        _checks.matching(op, x, bias=bias)
        _checks.require(tuple(bias.shape) == (weight.shape[0],), op,
                        f"bias is {_checks.shape_text(bias)}; [{weight.shape[0]}] goes with weight "
                        f"{_checks.shape_text(weight)}")
    dim = row_dim(x, dim, op)
    return Rows(x.shape, dim, x.shape[dim], ranks), block


def _unaligned(x, *columns):
    """Why GPUs do not take it: rows that a rank's calls could not hand over."""
    if x.is_cuda and any(one * x.element_size() % _columns.VECTOR for one in columns):
        return f"a rank's rows of {min(columns)} columns are no multiple of {_columns.VECTOR} bytes"
    return ""


@seen
def matmul_all_to_all(x, weight, bias, group_name, dim=0, rows=None, out=None):
    group, op = find(group_name), "matmul_all_to_all"
    many, block = product_rows(op, x, weight, bias, dim, rows, group.ranks)
    own = many.own(group.rank)
    _checks.require(x.shape[many.dim] == own, op,
                    f"x has {x.shape[many.dim]} of dimension {many.dim}; of rows={many.total} rank {group.rank} of "
                    f"{group.ranks} has {own}")
    n = weight.shape[0]
    columns = _columns.own(n, block, group.rank)
    shape = many.shape(many.total, columns)
    target = target_of(op, out, shape, x=x, weight=weight, bias=bias)
    if many.count == 0:
        return put(target, x.new_empty(shape))
    a, b = many.flat(x, many.block).contiguous(), weight.contiguous()
    refusal = _unaligned(a, block, _columns.own(n, block, group.ranks - 1))
    call = _calls.matmul_exchange(many.count, a, b, columns, refusal).of_rows(many, bias=_calls.given(bias))
    y, = _serve.run(call, group, lambda: (_collectives.to_columns(group, F.linear(a, b), block),),
                    given={"a": x, "b": weight}, targets={"out": target} if many.is_plain() else {})
    own_bias = None if bias is None else _columns.own_part(bias, group.rank, group.ranks)
    return put(target, biased(laid_back(op, many, y, many.total), own_bias))


@seen
def all_to_all_matmul(x, weight, bias, group_name, dim=0, out=None):
    group, op = find(group_name), "all_to_all_matmul"
    many, block = exchanged_rows(op, x, weight, bias, dim, group.rank, group.ranks)
    own, (n, k) = many.own(group.rank), weight.shape
    shape = many.shape(own, n)
    target = target_of(op, out, shape, x=x, weight=weight, bias=bias)
    if many.count == 0:
        return put(target, x.new_empty(shape))
    a, b = many.flat(x, many.block * group.ranks).contiguous(), weight.contiguous()
    refusal = _unaligned(a, block, _columns.own(k, block, group.ranks - 1))
    call = _calls.exchange_matmul(a, b, group.ranks, refusal).of_rows(many, bias=_calls.given(bias))
    y, = _serve.run(call, group, lambda: (F.linear(_collectives.to_rows(group, a, block, k), b),),
                    given={"a": x, "b": weight}, targets={"out": target} if many.is_plain() else {})
    return put(target, biased(laid_back(op, many, y, own), bias))


def _each_has_one(total, ranks):
    return total > -(-total // ranks) * (ranks - 1)


def tables_of(op, ids, tables, mode, num_tables, rank, ranks):
    """How many tables there are, and how many each rank has, but the last ones."""
    _checks.require(mode in MODES, op, f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    _checks.require(tables.dim() == 3 and tables.is_floating_point() and 0 not in tables.shape[1:], op,
                    f"tables is {tables.dtype} {_checks.shape_text(tables)}; floats [tables, rows, columns] were "
                    "expected, one row and column at least")
    _checks.require(_checks.are_whole(ids) and ids.dim() == 3 and ids.shape[1] == tables.shape[0], op,
                    f"ids is {ids.dtype} {_checks.shape_text(ids)}; whole numbers [bags, {tables.shape[0]}, pool] go "
                    f"with tables {_checks.shape_text(tables)}")
    _checks.require(ids.device == tables.device, op, f"ids is on {ids.device} and tables on {tables.device}")
    total = tables.shape[0] * ranks if num_tables is None else num_tables
    block = -(-total // ranks)
    if not _each_has_one(total, ranks):
        less = next((n for n in range(total, 0, -1) if _each_has_one(n, ranks)), None)
        more = next(n for n in itertools.count(total) if _each_has_one(n, ranks))
        raise ValueError(f"{op}: {total} tables are dealt to {ranks} ranks in blocks of {block}, which leaves none "
                         f"for the last: take {more if less is None else f'{less} or {more}'}")
    own = _columns.own(total, block, rank)
    _checks.require(tables.shape[0] == own, op,
                    f"tables is {_checks.shape_text(tables)}; of {total} tables rank {rank} of {ranks} has {own}")
    return total, block


def picked(ids, num_rows):
    """For each of ids [bags, tables, pool] its row in tables below one another, and whether it is one."""
    first = torch.arange(ids.shape[1], device=ids.device).view(1, -1, 1) * num_rows
    is_row = (ids >= 0) & (ids < num_rows)
    return torch.where(is_row, ids, 0).long() + first, is_row


def _pooled(ids, tables, mode):
    """[bags, tables, columns] by PyTorch: in fp32 or wider, rounded once."""
    rows, is_row = picked(ids, tables.shape[1])
    found = F.embedding(rows, tables.flatten(0, 1)).to(torch.promote_types(tables.dtype, torch.float32))
    sums = (found * is_row.unsqueeze(-1)).sum(2)
    if mode == "mean":
        sums = sums / is_row.sum(2).clamp(min=1).unsqueeze(-1)
    return sums.to(tables.dtype)


@seen
def embedding_all_to_all(ids, tables, group_name, mode="sum", num_tables=None, out=None):
    group, op = find(group_name), "embedding_all_to_all"
    total, block = tables_of(op, ids, tables, mode, num_tables, group.rank, group.ranks)
    bags, _, pool = ids.shape
    many = Rows(ids.shape[:1] + tables.shape[2:], 0, bags, group.ranks)
    shape = (many.own(group.rank), total, tables.shape[2])
    target = target_of(op, out, shape, tables=tables, ids=ids)
    if bags == 0 or pool == 0:
        return put(target, tables.new_zeros(shape))
    numbers = _calls.as_ids(ids).flatten(1).contiguous()
    w = tables.contiguous()

    def by_torch():
        sums = many.flat(_pooled(ids, w, mode).flatten(1), many.block * group.ranks)
        return (_collectives.to_rows(group, sums, block * shape[2], total * shape[2])[:shape[0]],)

    call = _calls.look_up(MODES[mode], numbers, w, total, pool, shape[0])
    y, = _serve.run(call, group, by_torch, targets={"out": target}, given={"ids": ids, "w": tables})
    return put(target, y.reshape(shape))


# What gradients need besides.

def all_to_all(x, group_name, to_rows, total, block, dim=0):
    """[..., all rows, ..., own columns] to [..., own rows, ..., `total` columns], or, to columns, the other way with
    `total` rows. `block` as of block_of().
    """
    group = find(group_name)
    many = Rows(x.shape, row_dim(x, dim, "all_to_all"), x.shape[dim] if to_rows else total, group.ranks)
    if many.count == 0:
        return fake_all_to_all(x, group_name, to_rows, total, block, dim)
    if to_rows:
        a = many.flat(x, many.block * group.ranks)
        return many.unflat(_collectives.to_rows(group, a, block, total), many.own(group.rank))
    return many.unflat(_collectives.to_columns(group, many.flat(x, many.block), block), many.total)


def all_reduce(x, group_name):
    group = find(group_name)
    return x.clone() if group.ranks == 1 else _collectives.all_reduce(group, x.contiguous())


# Fake kernels.

def fake_matmul_all_to_all(x, weight, bias, group_name, dim=0, rows=None):
    rank, ranks = place(group_name)
    many, block = product_rows("matmul_all_to_all", x, weight, bias, dim, rows, ranks)
    return x.new_empty(many.shape(many.total, _columns.own(weight.shape[0], block, rank)))


def fake_all_to_all_matmul(x, weight, bias, group_name, dim=0):
    rank, ranks = place(group_name)
    many, _ = exchanged_rows("all_to_all_matmul", x, weight, bias, dim, rank, ranks)
    return x.new_empty(many.shape(many.own(rank), weight.shape[0]))


def fake_embedding_all_to_all(ids, tables, group_name, mode="sum", num_tables=None):
    rank, ranks = place(group_name)
    total, _ = tables_of("embedding_all_to_all", ids, tables, mode, num_tables, rank, ranks)
    many = Rows(ids.shape[:1] + tables.shape[2:], 0, ids.shape[0], ranks)
    return tables.new_empty((many.own(rank), total, tables.shape[2]))


def fake_all_to_all(x, group_name, to_rows, total, block, dim=0):
    rank, ranks = place(group_name)
    many = Rows(x.shape, row_dim(x, dim, "all_to_all"), x.shape[dim] if to_rows else total, ranks)
    if to_rows:
        return x.new_empty(many.shape(many.own(rank), total))
    return x.new_empty(many.shape(many.total, _columns.own(x.shape[-1], block, rank)))


def fake_all_reduce(x, group_name):
    return torch.empty_like(x)
