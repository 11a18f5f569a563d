"""What layers have in common whose parameters are dealt to the ranks of a group."""

from typing import Dict, List, Type

import torch
from torch import nn

from ._cuts import Cut, in_memory_of_its_own
from .groups import group_name


class Dealt(nn.Module):
    """Parameters are this rank's parts. load_state_dict() takes this rank's part of what a checkpoint has whole, and
    parts as they are.

    cuts  how each parameter is dealt, by its name; those that every rank has whole are not in it
    """

    kind_of_cut: Type[Cut] = Cut

    def __init__(self, group):
        super().__init__()
        self.group = group_name(group)
        self.cuts: Dict[str, Cut] = {}

    def _take(self, name, tensor, dim, what, *how):
        """This rank's part of a whole layer's parameter, or all of it where `dim` is None. `how` as of Cut.of()."""
        if tensor is not None:
            own = tensor
            if dim is not None:
                self.cuts[name] = self.kind_of_cut.of(tensor, self.group, dim, what, *how)
                own = self.cuts[name].own(tensor)
            tensor = nn.Parameter(in_memory_of_its_own(own), tensor.requires_grad)
        self.register_parameter(name, tensor)

    @property
    def ranks(self) -> int:
        """That have parts; the group may be gone."""
        return next(iter(self.cuts.values())).ranks

    def _own(self, name):
        """A parameter for forward(); None where there is none."""
        parameter, cut = getattr(self, name), self.cuts.get(name)
        return parameter if parameter is None or cut is None else cut.with_summed_gradient(parameter, self.group)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        """Of this module alone; `state_dict` is PyTorch's own copy."""
        unfit = []
        for name, cut in self.cuts.items():
            key, own, given = prefix + name, self._parameters[name], state_dict.get(prefix + name)
            if not isinstance(given, torch.Tensor) or given.shape == own.shape:
                continue
            if given.shape == cut.whole_shape(own.shape):
                # A parameter that becomes what is given has to be without gaps, and to let the whole tensor go.
                is_kept = local_metadata.get("assign_to_params_buffers", False)
                state_dict[key] = in_memory_of_its_own(cut.own(given)) if is_kept else cut.own(given)
                continue
            error_msgs.append(
                f"size mismatch for {key}: the checkpoint has {list(given.shape)}, where the whole tensor is "
                f"{list(cut.whole_shape(own.shape))} and the part of rank {cut.rank} of {cut.ranks} {list(own.shape)}")
            del state_dict[key]
            unfit.append(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)
        missing_keys[:] = [key for key in missing_keys if key not in unfit]


def dealt_layers(model: nn.Module) -> List[Dealt]:
    return [module for module in model.modules() if isinstance(module, Dealt)]


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a layer's tensor, of which FSDP may have dealt the part again, over other ranks."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
