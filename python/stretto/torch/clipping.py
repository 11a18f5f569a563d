"""The norm of gradients of a model whose layers are dealt to ranks."""

import torch
from torch import nn

from ._dealt import dealt_layers, gathered, local
from .groups import ranks_of


@torch.no_grad()
def clip_grad_norm_(model: nn.Module, max_norm: float) -> torch.Tensor:
    """Scales gradients, in place, so that the norm of all of the model's is at most max_norm; returns what it was.

    model     layers that are dealt to the ranks of one group, as parallelize() makes them, and others, whose gradients
              every rank has alike
    max_norm  of all elements of the whole model's gradients, as torch.nn.utils.clip_grad_norm_ has it: which would take
              the norm of a rank's own parts, and leave what ranks have alike different on each

    Gradients that FSDP has dealt over other ranks (DTensors) are gathered for it, one after the other.
    Every rank has the same norm, in fp32, bit by bit. Collective. Raises ValueError where layers are of several groups.
    """
    layers = dealt_layers(model)
    groups = sorted({layer.group for layer in layers})
    if len(groups) > 1:
        raise ValueError(f"layers of the model are dealt to several groups ({', '.join(groups)}): clip their gradients "
                         "group by group")
    cuts = {id(layer.get_parameter(name)): cut for layer in layers for name, cut in layer.cuts.items()}
    ranks = ranks_of(groups[0]) if groups else 1
    with_gradients = [one for one in model.parameters() if one.grad is not None]
    if not with_gradients:
        return torch.zeros(())
    # What several ranks have alike counts once: each of them gives as much of it to the sum.
    total = torch.stack([
        cuts[id(one)].square_sum(gathered(one.grad)) if id(one) in cuts else
        gathered(one.grad).float().square().sum() / ranks for one in with_gradients]).sum()
    if ranks > 1:
        total = torch.ops.stretto.all_reduce(total, groups[0])
    norm = total.sqrt()
    torch._foreach_mul_([local(one.grad) for one in with_gradients], (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm
