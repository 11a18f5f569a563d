"""Plain collectives of whole tensors, for what Stretto does not serve and for gradients of weights."""

import torch
import torch.distributed as dist

from ._emulator import from_bytes, to_bytes


def _all(group, tensor, doing):
    """Every rank's tensor, of ranks that are threads: by the store."""
    story = {"shape": list(tensor.shape), "dtype": str(tensor.dtype)}
    group.meeting.agree(doing, story)
    group.meeting.say("tensor", to_bytes(tensor))
    heard = [group.meeting.hear(rank, "tensor", doing) for rank in range(group.ranks)]
    return [from_bytes(one, tensor.shape, tensor.dtype) for one in heard]


def all_gather(group, tensor):
    """[m, ...] of every rank, the same shape -> [R * m, ...]."""
    if group.process_group is None:
        return torch.cat(_all(group, tensor, "all_gather"))
    whole = tensor.new_empty((group.ranks * tensor.shape[0], *tensor.shape[1:]))
    dist.all_gather_into_tensor(whole, tensor.contiguous(), group=group.process_group)
    return whole


def all_reduce(group, tensor):
    """The sum of every rank's, in a new tensor."""
    if group.process_group is None:
        terms = _all(group, tensor, "all_reduce")
        total = terms[0].clone()
        for term in terms[1:]:
            total += term
        return total
    total = tensor.clone()
    dist.all_reduce(total, group=group.process_group)
    return total


def reduce_scatter(group, tensor):
    """[m, ...] of every rank -> this rank's [m / R, ...] of the sum."""
    rows = tensor.shape[0] // group.ranks
    if group.process_group is None or tensor.device.type == "cpu":  # gloo has none in older releases
        return all_reduce(group, tensor)[group.rank * rows:][:rows].contiguous()
    own = tensor.new_empty((rows, *tensor.shape[1:]))
    dist.reduce_scatter_tensor(own, tensor.contiguous(), group=group.process_group)
    return own
