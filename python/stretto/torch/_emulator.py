"""Calls on CPU tensors: rank 0 executes the plan of all ranks on Stretto's emulator."""

import ctypes
import json

import torch

import stretto

from ._refusals import NotServed
from .report import count_bad_ids

# What the emulator does at least, of all ranks together, in a second: others wait so long for rank 0.
LEAST_FLOPS_A_SECOND = 1e8
SCHEDULE = "tiles"  # where the group says "auto": choosing simulates, and nothing is timed here


def to_bytes(tensor):
    """Not by numpy(), after which PyTorch can give the tensor's memory no other size, as FSDP does."""
    own = tensor.detach().contiguous().resolve_neg()
    return ctypes.string_at(own.data_ptr(), own.numel() * own.element_size())


def from_bytes(data, shape, dtype):
    made = torch.empty(shape, dtype=dtype)
    if len(data) != made.numel() * made.element_size():
        raise RuntimeError(f"{len(data)} bytes are no {list(shape)} of {dtype}")
    if data:
        ctypes.memmove(made.data_ptr(), data, len(data))
    return made


class Engine:
    TYPES = ("bf16", "fp16", "fp32")
    workspace_bytes = 0

    def __init__(self, group):
        self._group = group
        chosen = group.options.schedule
        self._schedule = SCHEDULE if chosen == "auto" else chosen

    def run(self, call, dtype, targets):
        """The meeting that agreed on the call goes on: tensors to rank 0, results back."""
        group, meeting = self._group, self._group.meeting
        if group.rank != 0:
            for name, tensor in call.inputs.items():
                meeting.say(f"in {name}", to_bytes(tensor))
            patience_s = meeting.timeout_s + call.flops() * group.ranks / LEAST_FLOPS_A_SECOND
            answer = json.loads(meeting.hear(0, "answer", call.op, patience_s))
            _raise(answer)
            count_bad_ids(call.op, answer["bad_ids"])
            made = {name: from_bytes(meeting.hear(0, f"out {name} {group.rank}", call.op), shape, call.type_of(name))
                    for name, shape in call.outputs.items()}
        else:
            made = self._execute(call, dtype)
        for name, target in targets.items():
            if target is not None:
                made[name] = target.copy_(made[name].reshape(target.shape)).reshape(call.outputs[name])
        return made

    def _execute(self, call, dtype):
        group, meeting, results, answer = self._group, self._group.meeting, {}, {}
        try:
            infos = [stretto.tensors(call.graph, ranks=group.ranks, dtype=dtype, rank=rank, sizes=dict(call.sizes))
                     for rank in range(group.ranks)]
            results = {name: [torch.empty(of_rank[name].shape, dtype=call.type_of(name)) for of_rank in infos]
                       for name in call.outputs}
            tensors = {name: [own.detach()] + [
                from_bytes(meeting.hear(rank, f"in {name}", call.op), infos[rank][name].shape, own.dtype)
                for rank in range(1, group.ranks)] for name, own in call.inputs.items()}
            answer["bad_ids"] = stretto.emulate(call.graph, {**tensors, **results}, dtype=dtype,
                                                schedule=self._schedule, sizes=dict(call.sizes))
        except Exception as error:  # whatever it is, the other ranks wait to hear of it
            is_refused = isinstance(error, ValueError)
            answer = {"refused" if is_refused else "failed": f"{error}"}
        meeting.say("answer", json.dumps(answer).encode())
        _raise(answer)
        count_bad_ids(call.op, answer["bad_ids"])
        for name, by_rank in results.items():
            for rank in range(1, group.ranks):
                meeting.say(f"out {name} {rank}", to_bytes(by_rank[rank]))
        return {name: by_rank[0] for name, by_rank in results.items()}

    def finish(self):
        """Calls are over when they return."""

    def served(self):
        """Nothing is made of calls."""
        return []

    def num_operations(self):
        return 0

    def is_captured(self):
        return False

    def learn(self, left_ms):
        """There is nothing to time."""
        return 0

    def errors(self):
        """Calls raise what goes wrong."""
        return []

    def close(self):
        """There is nothing to free."""


def _raise(answer):
    if "refused" in answer:
        raise NotServed(answer["refused"])
    if "failed" in answer:
        raise RuntimeError(f"rank 0 could not execute the call: {answer['failed']}")
