"""The library's operations as calls on GPU tensors make them, as stand-ins that note what they are asked."""

import types
import unittest
from unittest import mock

import ranks  # noqa: F401  (PyTorch, or no tests)

import torch

import stretto
import stretto.torch as st
from stretto.torch import _calls, _gpu, _operations


class Operation:
    made = []
    refusal = failure = ""
    per_graph = 1
    workspace_bytes = 100
    of_exactly = "tiles"  # what "auto" takes for fixed rows

    def __init__(self, context, operator, **options):
        if self.refusal:
            raise ValueError(self.refusal)
        self.context, self.operator, self.options, self.runs = context, operator, options, []
        sizes = options["sizes"]
        self.rows, self.max_rows = options["rows"], sizes.get("m", next(iter(sizes.values())))
        self.dtype = options["dtype"]
        self.finished, self.prepared, self.is_closed = 0, [], False
        Operation.made.append(self)

    def run(self, tensors, num_rows, stream):
        if self.failure:
            raise RuntimeError(f"{self.failure}; finish() on all ranks goes on behind it")
        self.runs.append((tensors, num_rows, stream))

    def runs_per_graph(self, rows=None):
        return self.per_graph if "reuse=ack" not in self.schedule() else 1

    def prepare(self, num_rows):
        self.prepared.append(num_rows)

    def schedule(self, num_rows=None):
        if self.rows == "bucket":
            return "tiles" + _operations.ANY_ROWS
        return self.of_exactly if self.options["schedule"] == "auto" else self.options["schedule"]

    def close(self):
        self.is_closed = True

    def error(self):
        return self.failure

    def bad_ids(self):
        return 3 * len(self.runs)

    def finish(self):
        self.finished += 1
        if self.failure:
            raise RuntimeError(self.failure)


class OnOperations(unittest.TestCase):
    """Tests whose operations are stand-ins."""

    def setUp(self):
        Operation.made.clear()
        self.is_capturing, self.capability = False, (9, 0)
        self.contexts = []
        patched = [mock.patch.object(stretto, "Operation", Operation),
                   mock.patch.object(stretto, "Context", self.context),
                   mock.patch.object(torch.cuda, "current_stream", lambda device: "the stream"),
                   mock.patch.object(torch.cuda, "get_device_capability", lambda gpu: self.capability),
                   mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: self.is_capturing)]
        for one in patched:
            one.start()
            self.addCleanup(one.stop)

    def context(self, timeout_s, **named):
        named.setdefault("workspace_bytes", 0)
        made = types.SimpleNamespace(timeout_s=timeout_s, closed=False, **named)
        made.close = lambda: setattr(made, "closed", True)
        made.everyone = named["exchange"](b"secret %d" % named["rank"])
        self.contexts.append(made)
        return made

    def engine(self, schedule="auto", **options):
        """Of a group of one rank."""
        threads = st.Threads(1, timeout_s=60, schedule=schedule, **options)
        self.addCleanup(threads.close)
        return _gpu.Engine(threads.groups[0])

    @staticmethod
    def call(rows=4, n=16, out=None):
        return _calls.matmul_reduce(torch.zeros(rows, 8, dtype=torch.bfloat16),
                                    torch.zeros(n, 8, dtype=torch.bfloat16), 1)
