"""What plugins of serving frameworks share: vLLM's and SGLang's row-parallel linears have the same fields."""

from typing import Any, Optional

import torch

from . import functional as st
from .groups import ranks_of
from .report import count_left

OP = "row_parallel_linear"
PLAIN = "UnquantizedLinearMethod"


def reason_against(layer: Any, group: str) -> Optional[str]:
    """Why a layer is not served; None: it is. The layer then stays the framework's."""
    method = type(getattr(layer, "quant_method", None)).__name__
    if method != PLAIN:
        return f"its weights are {method}'s"
    if not layer.reduce_results:
        return "its results are not reduced"
    if not layer.input_is_parallel:
        return "its input is not dealt to the ranks yet"
    ranks = ranks_of(group)
    if layer.input_size_per_partition * ranks != layer.input_size:
        return f"its {layer.input_size} columns are not dealt to the group's {ranks} ranks"
    return None


def leave(reason: str) -> None:
    """Counts a layer's call that stays the framework's."""
    count_left(OP, reason)


def _plain(parameter: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """The tensor of a parameter that has a class of its own, as vLLM's do: calls that come again take plain ones."""
    is_own = parameter is not None and type(parameter) not in (torch.Tensor, torch.nn.Parameter)
    return parameter.data if is_own else parameter


def row_parallel(layer: Any, x: torch.Tensor, group: str) -> Optional[torch.Tensor]:
    """The layer's product and its sum over the ranks, with its bias unless that is the caller's; None where it
    is not served, which is counted.
    """
    reason = reason_against(layer, group)
    if reason is not None:
        leave(reason)
        return None
    return st.matmul_all_reduce(x, _plain(layer.weight), None if layer.skip_bias_add else _plain(layer.bias), group)
