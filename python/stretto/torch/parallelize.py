"""A whole model at once: its attentions and MLPs are found by the names that Hugging Face's models have."""

import logging

from torch import nn

from .groups import GroupLike, group_name, ranks_of
from .modules import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .report import count_fallback

log = logging.getLogger("stretto.torch")
COLUMNS = ("q_proj", "k_proj", "v_proj")
# What attentions of several releases keep of their heads; each rank has its own.
HEADS = ("num_heads", "num_attention_heads", "num_key_value_heads", "num_kv_heads")
ACTIVATIONS = {"silu": "swiglu", "siluactivation": "swiglu", "swish": "swiglu"}


def parallelize(model: nn.Module, mesh: GroupLike = None) -> nn.Module:
    """Deals the linears of a Llama-like model to the ranks of a group, in place; returns it.

    model  has its whole weights, the same on all ranks. Found are modules with q_proj, k_proj, v_proj and
           o_proj (attentions) and with gate_proj, up_proj and down_proj (MLPs), as in Llama, Qwen, Mistral
    mesh   a DeviceMesh of one dimension, a ProcessGroup, or the name of one

    Every rank goes on having all rows of activations: attention heads and the width of MLPs are dealt. A
    module that cannot be dealt stays as it is on every rank, is logged, and stands in report(). Raises
    ValueError for a model in which nothing is found.
    """
    name = group_name(mesh)
    found = [(path, module) for path, module in model.named_modules()
             if _is_attention(module) or _is_mlp(module)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no module with {', '.join(COLUMNS)}, o_proj, and none "
                         "with gate_proj, up_proj, down_proj")
    for path, module in found:
        try:
            dealt = _deal_attention(module, name) if _is_attention(module) else _deal_mlp(module, name)
        except _StaysWhole as reason:
            count_fallback("parallelize", f"{path or 'the model'} stays whole: {reason}")
            log.warning("%s stays whole on every rank: %s", path or "the model", reason)
            continue
        if path:
            parent, _, child = path.rpartition(".")
            setattr(model.get_submodule(parent), child, dealt)
        else:
            model = dealt
    return model


class _StaysWhole(Exception):
    pass


def _has_linears(module, names):
    return all(isinstance(getattr(module, name, None), nn.Linear) for name in names)


def _is_attention(module):
    return _has_linears(module, (*COLUMNS, "o_proj"))


def _is_mlp(module):
    return _has_linears(module, ("gate_proj", "up_proj", "down_proj"))


def _head_size(attention):
    size = getattr(attention, "head_dim", None)
    if size is None and getattr(attention, "num_heads", None):
        size = attention.q_proj.out_features // attention.num_heads
    return size


def _deal_attention(attention, group):
    ranks, size = ranks_of(group), _head_size(attention)
    if not size:
        raise _StaysWhole("it has neither head_dim nor num_heads")
    for name in COLUMNS:
        heads, rest = divmod(getattr(attention, name).out_features, size)
        if rest or heads % ranks:
            raise _StaysWhole(f"the {heads} heads of {name} do not divide by {ranks} ranks")
    for name in COLUMNS:
        linear = getattr(attention, name)
        setattr(attention, name, ColumnParallelLinear.from_linear(linear, group, sequence_parallel=False))
    attention.o_proj = RowParallelLinear.from_linear(attention.o_proj, group, sequence_parallel=False)
    for name in HEADS:
        if isinstance(getattr(attention, name, None), int):
            setattr(attention, name, getattr(attention, name) // ranks)
    return attention


def _deal_mlp(mlp, group):
    ranks, width = ranks_of(group), mlp.up_proj.out_features
    if width % ranks:
        raise _StaysWhole(f"its width {width} does not divide by {ranks} ranks")
    gate, up = (ColumnParallelLinear.from_linear(one, group, sequence_parallel=False)
                for one in (mlp.gate_proj, mlp.up_proj))
    down = RowParallelLinear.from_linear(mlp.down_proj, group, sequence_parallel=False)
    kind = getattr(mlp, "act_fn", None)
    activation = ACTIVATIONS.get(getattr(kind, "__name__", type(kind).__name__).lower())
    # One plan for all of it, where its parts are those of Stretto's operator; else linear by linear.
    if activation and down.bias is None and (gate.bias is None) == (up.bias is None):
        return ParallelMLP(gate, up, down, activation)
    mlp.gate_proj, mlp.up_proj, mlp.down_proj = gate, up, down
    return mlp
