"""Operations as calls on GPU tensors make them, executed by the emulator on CPU tensors of ranks that are threads."""

import contextlib
import dataclasses
from unittest import mock

import torch

import stretto
from stretto.torch import _emulator, _engine, _gpu, _operations


class Operation:
    """One of every rank's, for so many rows of a call like the one that it is made for."""

    def __init__(self, group, call, room, dtype, rows):
        self._group, self._emulator = group, _emulator.Engine(group)
        self._call, self._dtype = call, dtype
        self.graph, self.rows, self.max_rows, self.prepared = call.graph_name, rows, room, []
        self.runs = []  # the addresses of each run's tensors
        self.last = {}  # tensors of the last run
        self.left, self.budgets = 0, []  # of learn()

    def learn(self, budget_ms):
        self.budgets.append(budget_ms)
        return self.left

    def prepare(self, num_rows):
        self.prepared.append(num_rows)

    def runs_per_graph(self, num_rows=None):
        return 1

    def schedule(self, num_rows=None):
        return "tiles" if self.rows == "fixed" else "tiles" + _operations.ANY_ROWS

    def close(self):
        """Another serves its rows."""

    def run(self, tensors, num_rows, stream):
        call, (name, _) = self._call, self._call.sizes[0]
        sizes = ((name, num_rows), *call.sizes[1:])
        infos = stretto.tensors(call.graph, ranks=self._group.ranks, dtype=self._dtype, rank=self._group.rank,
                                sizes=dict(sizes))
        of_run = dataclasses.replace(
            call, sizes=sizes, inputs={one: tensors[one] for one in tensors if not infos[one].is_output},
            outputs={one: infos[one].shape for one in tensors if infos[one].is_output})
        for one, made in self._emulator.run(of_run, self._dtype, {}).items():
            tensors[one].copy_(made)
        self.last = dict(tensors)
        self.runs.append({one: tensor.data_ptr() for one, tensor in tensors.items()})

    def error(self):
        return ""

    def bad_ids(self):
        return 0

    def finish(self):
        pass


@contextlib.contextmanager
def operations():
    """In the block CPU tensors are served as GPU tensors are. Gives the operations that are made, of each rank, and a
    stand-in for the stream: `is_capturing` may be set.
    """
    made, stream = {}, mock.Mock(is_capturing=False)

    def make(operations, call, room, dtype, rows, schedule=None):
        group = operations._group
        made.setdefault(group.rank, []).append(Operation(group, call, room, dtype, rows))
        return made[group.rank][-1]

    with mock.patch.object(_operations.Operations, "_make", make), \
            mock.patch.dict(_engine.ENGINES, {"cpu": _gpu.Engine}), \
            mock.patch.object(torch.cuda, "current_stream", lambda device: stream), \
            mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: stream.is_capturing):
        yield made, stream
