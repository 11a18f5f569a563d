"""Calls that came before, by their shapes: what the library is given for them, but for addresses.

What such a call is checked for the first of its kind was checked for, by its kernel. What is left is to look it up, to
compare its tensors with that one's, and to enqueue; nothing is asked of a GPU, and other ranks are not either.
"""

import functools
import os
from typing import Any, Dict, Tuple

import torch
from torch.distributed import distributed_c10d as c10d

from .._library import library
from ..operations import tensors_in
from . import _repeats, groups
from ._checked import ADDED, BEHIND, PLAIN, Checked
from ._columns import own_part
from ._parts import are_behind, joined
from .report import served

MOST_TENSORS = 32  # of a call that may come again, as src/c/repeats.cpp has room for
MOST = 4096  # calls that differ; more of them begin anew
DEVICE = "cuda"
_records: Dict[Tuple, "Record"] = {}  # by operator, seat and what else there is to know of a call
# The same by id() of what a caller says of a group -> that, which nothing else is meanwhile, and the record
quick: Dict[Tuple, Tuple[Any, "Record"]] = {}
_bases: Dict[Tuple, torch.Tensor] = {}  # of one element, by type and device
_empty_like = torch.empty_like
# By device type: what compiled code of PyTorch's allocates with, in half of the time, on the current device, so that
# somebody has to look at where that is
_empty_strided = {name: function for name in ("cuda",) if (function := getattr(
    getattr(getattr(torch._C, "_dynamo", None), "guards", None), f"_empty_strided_{name}", None))}
_is_capturing = torch.cuda.is_current_stream_capturing
_increment_version = torch.autograd.graph.increment_version


def forget():
    _records.clear()
    quick.clear()


def num_calls():
    """That are known."""
    return sum(record.calls for record in list(_records.values()))  # other threads may add some


os.register_at_fork(after_in_child=forget)  # a fork has no ranks of its own: the kernel says so


def is_live(process_group):
    """Whether a ProcessGroup is there; None is none, of ranks that are threads."""
    return process_group is None or process_group in c10d._world.pg_map


# Which add a third tensor to the result, or this rank's part of it.
ADDING = ("matmul_reduce_scatter", "matmul_all_reduce", "matmul_all_to_all", "all_to_all_matmul")


def names_of(op, more, count):
    """The graph's inputs, in the order of the tensors given, of which there are so many; or BEHIND, or ADDED."""
    if op == "all_gather_matmul":
        behind = [BEHIND] * (more - 1)
        return ["a", "b", *behind, *(["c", *behind] if count > 1 + more else [])]
    if op == "mlp":
        ups = more[-1]
        return ["x", *["wg", "wu"][:ups], *(["c0", "c1"][:ups] if count > 2 + ups else []), "wd"]
    if op in ADDING:
        return ["a", "b", ADDED][:count]
    if op == "run_graph":
        return more[-1]
    return {"matmul_all_reduce_add_rms_norm": ["a", "b", "r", "w"],
            "moe": ["x", "ids", "weights", "wg", "wu", "wd"],
            "moe_with_router": ["x", "wr", "wg", "wu", "wd", "br"], "embedding_all_to_all": ["ids", "w"]}[op][:count]


def _like(tensor):
    """One of its shape and type that takes no memory, and of which torch.empty_like() makes a tensor without gaps."""
    key = tensor.dtype, tensor.device
    if key not in _bases:
        _bases[key] = torch.empty(1, dtype=tensor.dtype, device=tensor.device)
    return _bases[key].expand(tensor.shape)


def _makes(results, are_looked_at):
    """What makes such results, and what it is given for each."""
    empty = _empty_strided.get(results[0].device.type) if are_looked_at else None
    if empty is None:
        return _empty_like, tuple([(_like(one),) for one in results])
    return empty, tuple([(tuple(one.shape), one.stride(), one.dtype) for one in results])


class Record:
    """Calls of an operator in a group that are alike but for their tensors."""

    def __init__(self, op, group, index):
        self.op, self.seat, self.process_group = op, group.seat, group.process_group
        self._way = _repeats.Repeats() if _repeats.objects() is not None else Checked()
        self.takes, self._at, self._call = self._way.takes, self._way.at, self._way.call
        self._stream = functools.partial(torch._C._cuda_getCurrentRawStream, index)
        self._adds, self._count = op in ADDING, served(op)
        self._place = (group.rank, group.ranks) if op == "matmul_all_to_all" else None  # where it adds a part
        self._go_in_graphs, self.calls, self._kept = True, 0, []
        self.plans = {}  # of gradients, by how many tensors there are: see _again.py

    def add(self, last, names, tensors, inputs, made):
        """A call that was made: the library's run, and whose tensors it had."""
        operation = last.operation
        infos = operation._infos(last.rows)
        given = {**inputs, **dict(zip(last.outputs, made))}
        rows, words = operation._given({name: one.view(infos[name].shape) for name, one in given.items()}, last.rows)
        numbers = {name: number for number, name in enumerate(inputs)}
        self._way.add(library().enqueue, operation._handle.value, rows, tensors_in(words), tensors,
                      [numbers.get(name, name) for name in names], made,
                      *_makes(made, self._way.looks_at_results))
        self._go_in_graphs = self._go_in_graphs and operation.runs_per_graph(last.rows) == 1
        self._kept.append((operation, words))
        self.calls += 1

    def is_live(self):
        """Whether calls may be made now."""
        return is_live(self.process_group) and (self._go_in_graphs or not _is_capturing())

    def run(self, tensors, outs=None):
        """The results; None: there was no call with such tensors."""
        made = self._call(self._at, tensors, outs, self._stream())
        if made is None:
            return None
        if outs is not None:
            for one in outs:  # autograd may have kept what was there
                if not one.is_inference():  # these have none
                    _increment_version(one)
        if self.adds(tensors):
            made[0].add_(tensors[2] if self._place is None else own_part(tensors[2], *self._place))
        self._count[0] += 1
        return made

    def adds(self, tensors):
        """Whether the last of a call's tensors is added to the result, by PyTorch."""
        return self._adds and len(tensors) == 3


def look(op, seat, more):
    """The record of such calls in a group of this seat or name; None where there is none.

    more  what else there is to know of a call: a number of weights, an eps, ...
    """
    record = _records.get((op, seat, more))
    if record is None or record.is_live():
        return record
    if not is_live(record.process_group):
        forget()
    return None


def _inputs(names, tensors):
    """By the graph's names, those that lie behind one another as one; None: they do not lie so."""
    parts = {}
    for name, one in zip(names, tensors):
        if name == BEHIND:
            parts[next(reversed(parts))].append(one)
        elif name != ADDED:
            parts[name] = [one]
    if not all(are_behind(many) for many in parts.values()):
        return None
    return {name: joined(many) for name, many in parts.items()}


def _told(seat):
    """The last run of the group that nobody has asked for; None: there is none."""
    engine = groups.find(seat).engines.get(DEVICE)
    return engine and engine.told()


def _learn(op, seat, more, tensors, made):
    """What the call that has just been made needs to come again, if it can."""
    group, last = groups.find(seat), _told(seat)
    if group.options.compare:
        return
    if last is None or last.op != op or last.may_change or _is_capturing():
        return
    outputs = tuple(made[:len(last.outputs)])
    if len(tensors) + len(outputs) > MOST_TENSORS:
        return
    if any(type(one) not in PLAIN or not one.is_contiguous() for one in (*tensors, *outputs)):
        return
    names = names_of(op, more, len(tensors))
    inputs = _inputs(names, tensors)
    if inputs is None or {name: one.data_ptr() for name, one in inputs.items()} != last.addresses:
        return  # it was given copies
    key = op, seat, more
    record = _records.get(key)
    if record is not None and is_live(record.process_group) and record.takes(tensors):
        return  # its results could not be written where they were to be
    if num_calls() >= MOST:
        forget()
        record = None
    if record is None or not is_live(record.process_group):
        quick.clear()  # there may be another
        record = _records[key] = Record(op, group, tensors[0].get_device())
    record.add(last, names, tensors, inputs, outputs)


# The parts of a kernel's arguments: its tensors, `more`, the group's seat, whether it is a call that may come again,
# and `outs`.

def _is_even(x, seat, dim, rows):
    """Whether each rank has as many of dimension 0, so that nothing is said by `rows`. Gradients always give them."""
    return dim == 0 and (rows is None or [rows] == [one * groups.place(seat)[1] for one in x.shape[:1]])


def _of_gather(x, weights, biases, seat, dim=0, rows=None, keep_gathered=False, out=None, **_):
    may_come_again = not keep_gathered and _is_even(x, seat, dim, rows)
    return (x, *weights, *biases), len(weights), seat, may_come_again, _outs(out)


def _of_product(x, weight, bias, seat, dim=0, rows=None, out=None, **_):
    return (x, weight) if bias is None else (x, weight, bias), None, seat, _is_even(x, seat, dim, rows), _outs(out)


def _of_norm(x, weight, residual, norm_weight, eps, seat, out=None, total=None):
    return (x, weight, residual, norm_weight), eps, seat, True, None if out is None else (out, total)


def _of_mlp(x, ups, up_biases, down, activation, seat, sequence_parallel=False, dim=0, out=None):
    more = activation, sequence_parallel, len(ups)
    return (x, *ups, *up_biases, down), more, seat, dim == 0, _outs(out)


def _of_moe(x, ids, weights, gate, up, down, seat, expert_parallel=False, rows=None, sequence_parallel=True,
            num_experts=None, out=None):
    more = expert_parallel, rows, sequence_parallel, num_experts
    return (x, ids, weights, gate, up, down), more, seat, True, _outs(out)


def _of_moe_with_router(x, router, gate, up, down, bias, seat, k, scores="softmax", normalise=True, scale=1.0, groups=1,
                        best=1, expert_parallel=False, rows=None, out=None, ids=None, weights=None):
    tensors = (x, router, gate, up, down) if bias is None else (x, router, gate, up, down, bias)
    more = k, scores, normalise, scale, groups, best, expert_parallel, rows
    return tensors, more, seat, True, None if out is None else (out, ids, weights)


def _of_look_up(ids, tables, seat, mode="sum", num_tables=None, out=None):
    return (ids, tables), (mode, num_tables, tables.shape[1:]), seat, True, _outs(out)


def _outs(out):
    return None if out is None else (out,)


PARTS = {"all_gather_matmul": _of_gather, "matmul_reduce_scatter": _of_product, "matmul_all_reduce": _of_product,
         "matmul_all_reduce_add_rms_norm": _of_norm, "mlp": _of_mlp, "moe": _of_moe,
         "moe_with_router": _of_moe_with_router, "matmul_all_to_all": _of_product, "all_to_all_matmul": _of_product,
         "embedding_all_to_all": _of_look_up}


def _results(op, x, made):
    """As the kernel returns them."""
    if op == "all_gather_matmul":
        return made[0], x.new_empty((0,))  # no gathered rows
    return tuple(made) if len(made) > 1 or op == "run_graph" else made[0]


def seen(kernel):
    """A kernel, but for calls that came before."""
    op = kernel.__name__
    parts = PARTS[op]

    @functools.wraps(kernel)
    def call(*arguments, **named):
        tensors, more, seat, may_come_again, outs = parts(*arguments, **named)
        if not may_come_again:
            return kernel(*arguments, **named)
        record = look(op, seat, more)
        made = record and record.run(tensors, outs)
        if made is not None:
            return _results(op, tensors[0], made)
        is_served = tensors[0].device.type == DEVICE
        if is_served:
            _told(seat)  # of a call that cannot come again
        made = kernel(*arguments, **named)
        if is_served:
            _learn(op, seat, more, tensors, (made,) if isinstance(made, torch.Tensor) else tuple(made))
        return made
    return call
