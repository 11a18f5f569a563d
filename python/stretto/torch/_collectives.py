"""Plain collectives of whole tensors, for what Stretto does not serve and for gradients of weights."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ._emulator import from_bytes, to_bytes


def _all(group, tensor, doing):
    """Every rank's tensor, of ranks that are threads: by the store."""
    story = {"shape": list(tensor.shape), "dtype": str(tensor.dtype)}
    group.meeting.agree(doing, story)
    group.meeting.say("tensor", to_bytes(tensor))
    heard = [group.meeting.hear(rank, "tensor", doing) for rank in range(group.ranks)]
    return [from_bytes(one, tensor.shape, tensor.dtype) for one in heard]


def all_gather(group, tensor, out=None):
    """[m, ...] of every rank, the same shape -> [R * m, ...]."""
    if group.process_group is None:
        return torch.cat(_all(group, tensor, "all_gather"), out=out)
    whole = room_to_gather(group, tensor) if out is None else out
    dist.all_gather_into_tensor(whole, tensor.contiguous(), group=group.process_group)
    return whole


def all_reduce(group, tensor, out=None):
    """The sum of every rank's, in a new tensor or in `out`, which may be the tensor itself."""
    total = torch.empty_like(tensor) if out is None else out
    if group.process_group is None:
        terms = _all(group, tensor, "all_reduce")
        total.copy_(terms[0])
        for term in terms[1:]:
            total += term
        return total
    if total is not tensor:
        total.copy_(tensor)
    dist.all_reduce(total, group=group.process_group)
    return total


def reduce_scatter(group, tensor, out=None):
    """[m, ...] of every rank -> this rank's [m / R, ...] of the sum."""
    own = room_to_scatter(group, tensor) if out is None else out
    if group.process_group is None or tensor.device.type == "cpu":  # gloo has none in older releases
        return own.copy_(all_reduce(group, tensor)[group.rank * len(own):][:len(own)])
    dist.reduce_scatter_tensor(own, tensor.contiguous(), group=group.process_group)
    return own


def room_to_gather(group, tensor):
    return tensor.new_empty((group.ranks * tensor.shape[0], *tensor.shape[1:]))


def room_to_scatter(group, tensor):
    return tensor.new_empty((tensor.shape[0] // group.ranks, *tensor.shape[1:]))


def _exchange(group, parts):
    """[R, ...], a part for each rank -> [R, ...], the part of each rank for this one."""
    backend = group.process_group and dist.get_backend(group.process_group)
    if group.ranks == 1:
        return parts
    if backend != "nccl":  # others have it for some tensors only
        return all_gather(group, parts).view(group.ranks, *parts.shape)[:, group.rank]
    heard = torch.empty_like(parts)
    dist.all_to_all_single(heard, parts.contiguous(), group=group.process_group)
    return heard


def to_columns(group, tensor, block):
    """[m, n] of every rank, as many rows -> this rank's columns [R * m, ...]: each has `block`, the last what is
    left.
    """
    columns = tensor.shape[1]
    wide = F.pad(tensor, (0, block * group.ranks - columns))
    own = _exchange(group, wide.view(len(tensor), group.ranks, block).transpose(0, 1).contiguous())
    return own.flatten(0, 1)[:, :max(0, min(block, columns - group.rank * block))].contiguous()


def to_rows(group, tensor, block, columns):
    """Of R * m rows every rank's columns, as to_columns() leaves them -> this rank's rows [m, columns]."""
    wide = F.pad(tensor, (0, block - tensor.shape[1]))
    own = _exchange(group, wide.view(group.ranks, -1, block).contiguous())
    return own.transpose(0, 1).flatten(1)[:, :columns].contiguous()
