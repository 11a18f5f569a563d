"""Graphs of the caller's own: the kernel of torch.ops.stretto.run_graph, and its fake."""

import dataclasses
import functools
import hashlib

import torch

import stretto

from . import _calls, _checks, _engine, _records, _serve
from .groups import find, place, ranks_of

OP = "run_graph"
DTYPES = {name: dtype for many in (_serve.TYPES, _calls.DTYPES) for dtype, name in many.items()}


class Call(_calls.Call):
    @property
    def graph_name(self):
        """Others may have graphs of this name."""
        return f"{name_of(self.graph)} ({hashlib.sha256(self.graph.encode()).hexdigest()[:8]})"

    def flops(self):
        """Weights may have any names, and sizes any order."""
        return 2.0 * max(size for _, size in self.sizes) * sum(one.numel() for one in self.inputs.values())


def name_of(graph):
    lines = (line.split("#")[0].split() for line in graph.splitlines())
    return next((words[1] for words in lines if words[:1] == ["graph"] and len(words) > 1), graph)


@functools.lru_cache(maxsize=256)
def infos_of(graph, sizes, dtype, rank, ranks):
    """Inputs and outputs, as a rank has them. Raises ValueError."""
    found = stretto.tensors(graph, ranks=ranks, dtype=dtype, rank=rank, sizes=sizes_of(sizes)).values()
    return [one for one in found if not one.is_output], [one for one in found if one.is_output]


@torch.compiler.assume_constant_result
def names_of(graph, sizes, ranks):
    """Of its inputs, and of its outputs."""
    return tuple([one.name for one in infos] for infos in infos_of(graph, sizes, "bf16", 0, ranks))


def sizes_of(words):
    return {name: int(value) for name, value in (word.split("=") for word in words.split())}


def dtype_of(inputs, graph, sizes, ranks):
    """The operator's: that of the inputs which have it."""
    infos, _ = infos_of(graph, sizes, "bf16", 0, ranks)
    _checks.require(len(inputs) == len(infos), OP,
                    f"{len(inputs)} inputs; {name_of(graph)} has {', '.join(one.name for one in infos)}")
    own = [one.dtype for one, info in zip(inputs, infos) if info.dtype == "bf16"]
    _checks.require(own and own[0] in _serve.TYPES, OP,
                    f"inputs are {own[0] if own else inputs[0].dtype}; "
                    f"one of {', '.join(str(one) for one in _serve.TYPES)} was expected")
    return _serve.TYPES[own[0]]


def checked(inputs, graph, sizes, rank, ranks):
    """The operator's type, and its outputs on this rank."""
    dtype = dtype_of(inputs, graph, sizes, ranks)
    infos, outputs = infos_of(graph, sizes, dtype, rank, ranks)
    for tensor, info in zip(inputs, infos):
        rows = tensor.numel() // tensor.shape[-1] if tensor.dim() > 0 and tensor.shape[-1] else 0
        _checks.require(tensor.dim() > 0 and (rows, tensor.shape[-1]) == info.shape, OP,
                        f"{info.name} is {_checks.shape_text(tensor)}; {list(info.shape)} is what rank {rank} of "
                        f"{ranks} has of it ({info.held})")
        _checks.require(tensor.dtype == DTYPES[info.dtype], OP,
                        f"{info.name} is {tensor.dtype}; {DTYPES[info.dtype]} was expected")
        _checks.require(tensor.device == inputs[0].device, OP,
                        f"{info.name} is on {tensor.device}, and {infos[0].name} on {inputs[0].device}")
    return infos, outputs, DTYPES[dtype]


def more_of(graph, sizes, names):
    """What there is to know of a call beside its tensors (_records.look())."""
    return graph, sizes, tuple(names)


def _parts(inputs, graph, sizes, seat):
    names, _ = names_of(graph, sizes, ranks_of(seat))
    return tuple(inputs), more_of(graph, sizes, names), seat, len(inputs) == len(names), None


_records.PARTS[OP] = _parts


@_records.seen
def run_graph(inputs, graph, sizes, group_name):
    group = find(group_name)
    infos, outputs, dtype = checked(inputs, graph, sizes, group.rank, group.ranks)
    given = sorted(zip(infos, inputs), key=lambda one: one[1].dtype != dtype)  # the operator's type is the first's
    call = Call(OP, graph, tuple(sizes_of(sizes).items()), {info.name: one.contiguous() for info, one in given},
                {one.name: one.shape for one in outputs}, types={one.name: DTYPES[one.dtype] for one in outputs})
    call = dataclasses.replace(call, said={"graph": call.graph_name})
    try:
        return list(_serve.run(call, group, None, given={info.name: one for info, one in given}))
    except _engine.NotServed as error:
        raise ValueError(f"{OP}: {name_of(graph)} is not served for group {group.name!r}: {error}") from None


def fake_run_graph(inputs, graph, sizes, group_name):
    _, outputs, _ = checked(inputs, graph, sizes, *place(group_name))
    return [inputs[0].new_empty(one.shape, dtype=DTYPES[one.dtype]) for one in outputs]
