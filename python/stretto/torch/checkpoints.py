"""Whole tensors of models whose layers are dealt: what a checkpoint has."""

from typing import Any, Dict, Optional, Union

import torch
from torch import nn

from . import _collectives
from ._dealt import Dealt, gathered, local
from .groups import find, rank_of


def full_state_dict(model: nn.Module, *, device: Optional[Union[str, torch.device]] = None,
                    rank0_only: bool = False) -> Dict[str, Any]:
    """What model.state_dict() would be without ranks: every tensor whole, under the names that it has.

    device      where whole tensors go, each as soon as it is whole: "cpu" for models that no GPU has room for; None:
                where the parts are
    rank0_only  who is not the first of its ranks gets an empty dict, and keeps no whole tensor

    The names of a model that parallelize() has dealt are those that it had before, so that the result is a checkpoint
    of the model as it was, and load_state_dict() takes it on any number of ranks. Tensors that are one (an embedding's
    and a head's) are gathered once, and are one; so are those that FSDP has dealt over other ranks (DTensors), which
    have to come then, too. Collective over the groups of the layers; raises ValueError where a
    part has no data (on meta).
    """
    cuts, groups = {}, set()
    for path, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, Dealt):
            groups.add(module.group)
            for name, cut in module.cuts.items():
                cuts[f"{path}.{name}" if path else name] = cut, module.group
    is_kept = not rank0_only or all(rank_of(group) == 0 for group in groups)
    ids = {name: id(one) for name, one in model.named_parameters(remove_duplicate=False)}
    found, known = {}, {}
    for name, part in model.state_dict().items():
        if not isinstance(part, torch.Tensor):
            found[name] = part
            continue
        if part.is_meta:
            raise ValueError(f"{name} is on meta: it has a shape, and no data")
        is_dealt_again = local(part) is not part  # of what a rank has of it nothing may be left
        key = ids.get(name) if is_dealt_again else (part.data_ptr(), part.dtype, part.shape, part.stride())
        if part.numel() == 0 or key not in known:
            part = gathered(part)
            whole = part if name not in cuts else _gathered(part, *cuts[name])
            known[key] = (whole if device is None else whole.to(device)) if is_kept else None
        found[name] = known[key]
    return found if is_kept else {}


def _gathered(part, cut, group):
    if cut.ranks == 1:
        return part
    by_rank = _collectives.all_gather(find(group), part.contiguous())
    return cut.whole(by_rank.chunk(cut.ranks))
