"""All-to-alls beside products, and look-ups, as functions. Who has which columns of what is dealt by columns:
blocks of ceil(columns / R) where R ranks divide them; else of as many whole 16 bytes as that takes, of which the last
rank has what is left. Of 100 columns in bf16 3 ranks have 40, 40 and 20.
"""

from typing import Optional

import torch

from . import _again, _calls, _checks, _wanted
from .functional import _refuse_gradients, _refuse_tangents
from .groups import GroupLike, seat


PRODUCT = "x", "weight", "bias"
# What operators are told besides tensors and group, last, and of which kind; None: a whole number, or nothing.
SAID = {"matmul_all_to_all": (("dim", int), ("rows", None)), "all_to_all_matmul": (("dim", int),),
        "embedding_all_to_all": (("mode", str), ("num_tables", None))}


def _called(op, group, more, may_come_again, names, tensors, out, *arguments):
    """`arguments` are those of the operator, last those of SAID."""
    if may_come_again:
        made = _again.again(op, group, more, tensors, None if out is None else (out,))
        if made is not None:
            return made[0]
    _checks.tensors(op, **dict(zip(names, tensors)))
    for (name, kind), one in zip(SAID[op], arguments[-len(SAID[op]):]):
        if kind is not None:
            _checks.numbers(op, kind, **{name: one})
        else:
            _checks.whole_or_none(op, **{name: one})
    _refuse_tangents(op, tensors)
    kernel = getattr(torch.ops.stretto, op)
    if out is None:
        # For a weight's gradient rows are exchanged, of which that of x is made without another exchange.
        is_x_free = op == "matmul_all_to_all" and any(one.requires_grad for one in tensors[1:])
        _wanted.say(op, **{name: [one] for name, one in zip(names, tensors) if name != "x" or not is_x_free})
        return kernel(*arguments)
    _refuse_gradients(op, *tensors, out)
    kernel.out(*arguments, out=out)
    return out


def matmul_all_to_all(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None,
                      group: GroupLike = None, *, dim: int = 0, rows: Optional[int] = None,
                      out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """all_to_all(x @ weight.T + bias): from this rank's rows to this rank's columns, tokens to heads (Ulysses).

    x       [..., K]: dimension `dim` is dealt to the R ranks
    weight  [N, K], whole and the same on all ranks; bias [N], too, or None. Their gradients are of all rows, and so
            the same on all ranks
    dim     the dimension of rows; not the last
    rows    of it, of all ranks, where they do not divide: rank r has the r-th block of ceil(rows / R); None: every
            rank has as many as this one
    out     written instead of a new tensor (no gradients)

    Returns [..., N_r] with all of `dim`: N_r = N / R, or what this rank has where ranks do not divide N. Collective;
    raises as all_gather_matmul().
    """
    tensors = (x, weight) if bias is None else (x, weight, bias)
    return _called("matmul_all_to_all", group, None, dim == 0 and rows is None, PRODUCT, tensors, out,
                   x, weight, bias, seat(group), dim, rows)


def all_to_all_matmul(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None,
                      group: GroupLike = None, *, dim: int = 0,
                      out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """all_to_all(x) @ weight.T + bias: from this rank's columns to this rank's rows, heads to tokens (Ulysses).

    x       [..., K_r] with all rows: this rank's columns of K, K / R, or what it has where ranks do not divide K
    weight  [N, K] and bias [N] as of matmul_all_to_all()
    dim     the dimension that is dealt to the R ranks: rank r gets the r-th block of ceil(size / R)
    out     written instead of a new tensor (no gradients)

    Returns [..., N]. Collective; raises as all_gather_matmul().
    """
    tensors = (x, weight) if bias is None else (x, weight, bias)
    return _called("all_to_all_matmul", group, None, dim == 0, PRODUCT, tensors, out,
                   x, weight, bias, seat(group), dim)


def embedding_all_to_all(ids: torch.Tensor, tables: torch.Tensor, group: GroupLike = None, *, mode: str = "sum",
                         num_tables: Optional[int] = None, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Sums, or means, of the rows of tables that each bag picks, and an all-to-all: from this rank's tables to this
    rank's bags (recommendation models).

    ids         [bags, T_r, pool]: of all bags which rows of this rank's tables are added up, whole numbers. -1 picks
                none, and so does what is no row. int32 and int64 are taken as they are, others are cast at every call
    tables      [T_r, S, D]: this rank's tables, of S rows each
    mode        "sum" or "mean"
    num_tables  of all ranks, where they do not divide: rank r has the r-th block of ceil(num_tables / R), and the last
                one what is left; None: every rank has as many as this one
    out         written instead of a new tensor (no gradients)

    Returns [own bags, num_tables, D]: rank r has the r-th block of ceil(bags / R) bags. Added up in fp32 in the order
    of ids, rounded once. The gradient of tables is dense, and PyTorch's. Collective; raises as all_gather_matmul().
    """
    _checks.tensors("embedding_all_to_all", ids=ids, tables=tables)
    if _checks.are_whole(ids):  # else the operator says what is wrong
        ids = _calls.as_ids(ids)
    more = mode, num_tables, tables.shape[1:]  # which gradients are made of
    return _called("embedding_all_to_all", group, more, True, ("ids", "tables"), (ids, tables), out,
                   ids, tables, seat(group), mode, num_tables)
