"""Operators by name or as graphs, and the tensors that they take at calls."""

import dataclasses
import os
from ctypes import byref, c_int32
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ._library import COperator, CTensorInfo, dtype_text, library, rank_number, serves, text, whole

Operator = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """A tensor that the caller of an operator gives or gets, as one rank has it."""

    name: str
    held: str  # "whole", or a block by rank: "rows", "cols" (of columns), "experts" (of a stack's matrices)
    is_output: bool
    shape: Tuple[int, int]
    dtype: str = "bf16"  # the operator's, but of ids ("i32") and weights of rows ("fp32")


def sizes_text(sizes, more):
    both = {**(sizes or {}), **more}
    if sizes and len(both) != len(sizes) + len(more):
        raise ValueError(f"sizes are given twice: {', '.join(sorted(set(sizes) & set(more)))}")
    for name in both:
        if not isinstance(name, str) or not name or set(name) & set(" =\t\r\n\0"):
            raise ValueError(f"{name!r} is no name of a size")
    return " ".join(f"{name}={whole(value, name)}" for name, value in both.items())


def graph_text(operator):
    """What stands for an operator: its name, or its graph's text."""
    if not isinstance(operator, os.PathLike):
        return operator
    with open(operator, encoding="utf-8") as file:
        try:
            return file.read() + "\n"
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(operator)} is no text in UTF-8: {error}") from None


def c_operator(operator, sizes, ranks, dtype):
    """`operator`: a shipped one's name, a graph's text (of several lines), or the path of its file."""
    known = text(graph_text(operator), "operator")
    name, graph = (None, known) if b"\n" in known else (known, None)
    number = whole(ranks, "ranks")
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"ranks={number} is too {'large' if number > 0 else 'small'}")
    return COperator(name, graph, text(sizes, "sizes"), number, text(dtype_text(dtype), "dtype"))


def info_of(found):
    return TensorInfo(found.name.decode(), found.held.decode(), bool(found.is_output),
                      (found.rows, found.cols), found.dtype.decode())


def infos_of(c_op, served, rank):
    """The TensorInfo of every tensor, inputs first."""
    count = c_int32()
    library().tensor_count(byref(c_op), byref(count))
    infos = []
    for index in range(count.value):
        info = CTensorInfo()
        library().tensor_of(byref(c_op), served, rank, index, byref(info))
        infos.append(info_of(info))
    return infos


def tensors(operator: Operator, *, ranks: int, dtype: Any = "bf16", rows: str = "fixed",
            rank: int = 0, sizes: Optional[Mapping[str, int]] = None,
            **more_sizes: int) -> Dict[str, TensorInfo]:
    """What calls of an operator take, by name: inputs in the graph's order, then outputs.

    With rows="bucket" what a tensor of an operation for up to so many rows needs room for. What rank 0 has no
    rank has more of. Arguments are those of plan(). Raises ValueError.
    """
    c_op = c_operator(operator, sizes_text(sizes, more_sizes), ranks, dtype)
    return {info.name: info for info in infos_of(c_op, serves(rows), rank_number(rank))}
