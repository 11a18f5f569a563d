"""Graphs as functions: whatever operator Stretto plans, of the caller's own too."""

import operator
from typing import Any, Dict, Mapping, Optional

import torch

from stretto.operators import graph_text, sizes_text

from . import _again, _checks, _graphs
from .functional import _refuse_tangents
from .groups import GroupLike, ranks_of, seat


@torch.compiler.assume_constant_result
def _said(graph, sizes, more_sizes):
    """A graph's text, and its sizes as words."""
    return graph_text(graph), sizes_text(dict(sizes), dict(more_sizes))


def run_graph(graph: Any, tensors: Mapping[str, torch.Tensor], group: GroupLike = None, *,
              sizes: Optional[Mapping[str, int]] = None, **more_sizes: int) -> Dict[str, torch.Tensor]:
    """One run of an operator: a shipped one's name, a graph's text, or the pathlib.Path of its file.

    tensors  every input by its name in the graph, as this rank has it: stretto.tensors() says which part, and what
             leads the columns counts as rows. The operator's type is theirs, but for what the graph says of a type
             of its own: ids are int32 or int64, weights of sums fp32
    sizes    all that the graph has, global, as keywords or in a mapping

    Returns the outputs by their names, as this rank has them. No gradients: call it under torch.no_grad() where a
    tensor requires one. Plans are kept for at most 8 values of the size that is named first. Collective; raises
    ValueError, for what is not served too, and RuntimeError.
    """
    op, name = _graphs.OP, seat(group)
    _checks.tensors(op, **tensors)
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors.values()):
        raise ValueError(f"{op}: graphs have no gradients: call it under torch.no_grad()")
    _refuse_tangents(op, tensors.values())
    known, more = tuple((sizes or {}).items()), tuple(more_sizes.items())
    if torch.compiler.is_compiling():  # which may have symbols for sizes: each has a plan of its own
        known, more = (tuple([(one, operator.index(size)) for one, size in given]) for given in (known, more))
    text, words = _said(graph, known, more)
    names, outputs = _graphs.names_of(text, words, ranks_of(name))
    unlike = sorted(set(names) ^ set(tensors))
    if unlike:
        raise ValueError(f"{op}: {_graphs.name_of(text)} takes {', '.join(names)}; "
                         f"{unlike[0]} is {'missing' if unlike[0] in names else 'unknown'}")
    given = tuple([tensors[one] for one in names])
    made = _again.again(op, group, _graphs.more_of(text, words, names), given)
    if made is None:
        made = torch.ops.stretto.run_graph(given, text, words, name)
    return dict(zip(outputs, made))
