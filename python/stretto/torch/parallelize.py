"""A whole model at once: its attentions and MLPs are found by the names that models have them by (_names.py)."""

import collections
import copy
import logging
import re
from typing import Optional

from torch import nn

from . import _names
from ._cuts import sum_gradients
from ._dealt import dealt_layers
from ._forwards import tried, why_no_plain_linear
from .groups import GroupLike, group_name, rank_of, ranks_of
from .modules import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .report import count_fallback
from .stacks import ParallelExperts
from .vocabulary import HOW, Head, put

log = logging.getLogger("stretto.torch")


def parallelize(model: nn.Module, mesh: GroupLike = None, *, vocabulary: Optional[str] = None) -> nn.Module:
    """Deals the linears and experts of a Llama-like model to the ranks of a group, in place; returns it.

    model       has its whole weights, the same on all ranks, or is on the meta device. Found are attentions with q_proj,
                k_proj, v_proj and o_proj, or wq, wk, wv and wo, or qkv_proj and o_proj; MLPs with gate_proj, up_proj
                and down_proj, or w1, w3 and w2, or gate_up_proj and down_proj; and experts whose gate_up_proj and
                down_proj are stacks, as transformers have them from 5 on
    mesh        a DeviceMesh of one dimension, a ProcessGroup, or the name of one
    vocabulary  "gathered" or "cut": what makes logits (lm_head, output) is dealt by the vocabulary, too, and with it an
                embedding that shares its weight. Logits are gathered, so that every rank has all of them, or stay cut:
                rank r has the r-th of R blocks of the vocabulary. None: every rank computes all of them

    Every rank goes on having all rows of activations: attention heads and the width of MLPs are dealt. What cannot be
    dealt, and matrices of modules that are not known, stay as they are on every rank, are logged, and stand in
    report(). Raises ValueError for a model in which nothing is found, or not the vocabulary that is to be dealt.
    """
    if vocabulary not in (None, *HOW):
        raise ValueError(f"vocabulary is {vocabulary!r}; it is one of {', '.join(map(repr, HOW))}, or None")
    name = group_name(mesh)
    found = [(path, module) for path, module in model.named_modules() if _dealer(module)]
    if not found and dealt_layers(model):
        raise ValueError(f"{type(model).__name__} is dealt already (ranks={dealt_layers(model)[0].ranks})")
    if not found:
        known = "; ".join((*map(str, (*_names.ATTENTIONS, *_names.MLPS)), "stacks of " + ", ".join(_names.EXPERTS)))
        raise ValueError(f"{type(model).__name__} has no module with linears of names that are known ({known})")
    head = Head(model) if vocabulary else None
    _tell_unknown(model, [path for path, _ in found])
    shared = _shared_parameters(model)
    for path, module in found:
        deal, names = _dealer(module)
        try:
            for parameter, one in module.named_parameters():
                if id(one) in shared:
                    raise _StaysWhole(f"its {parameter} is a parameter of another module, too, and would be two")
            dealt = deal(module, names, name)
        except _StaysWhole as reason:
            _tell(path or "the model", str(reason))
            continue
        if path:
            put(model, module, dealt)
        else:
            model = dealt
    if head:
        try:
            head.deal(name, vocabulary == "gathered")
        except ValueError as reason:
            _tell(head.path, str(reason))
    return model


class _StaysWhole(Exception):
    pass


def _shared_parameters(model):
    """The id() of those that several modules have."""
    counts = collections.Counter(id(one) for module in model.modules() for one in module._parameters.values()
                                 if one is not None)
    return {one for one, count in counts.items() if count > 1}


def _tell(path, reason, count=1):
    for _ in range(count):
        count_fallback("parallelize", f"{path} stays whole: {reason}")
    log.warning("%s stays whole on every rank: %s", path, reason)


def _tell_unknown(model, found):
    """Of modules that have matrices, and no name that is known."""
    unknown = {}
    for name, parameter in model.named_parameters():
        path, _, _ = name.rpartition(".")
        parent, _, child = path.rpartition(".")
        if (parameter.dim() < 2 or isinstance(model.get_submodule(path), nn.Embedding) or child in _names.HEADS or
                (child in _names.ROUTERS and any(map(_names.are_experts, model.get_submodule(parent).children()))) or
                any(one == "" or path == one or path.startswith(f"{one}.") for one in found)):
            continue
        layers = re.sub(r"(?<![^.])\d+(?![^.])", "*", path)  # layers.7.mlp as layers.*.mlp
        unknown.setdefault(layers or "the model", set()).add(path)
    for layers, paths in unknown.items():
        _tell(layers, "its name is none that is known", len(paths))


def _dealer(module):
    """What deals a module to ranks, and its names; None: it is of no kind that is known."""
    if _names.are_experts(module):
        return _deal_experts, _names.EXPERTS
    for deal, table in ((_deal_attention, _names.ATTENTIONS), (_deal_mlp, _names.MLPS)):
        names = _names.names_in(module, table)
        if names:
            return deal, names
    return None


def _deal(module, names, group, parts=None, places=None):
    """Linears of a module; `parts` of a fused one, and every rank's place in each part or linear, where they are others
    than blocks.
    """
    columns = [None] * len(names.columns)
    if places is not None:
        columns = [places] if names.is_fused else [[one] for one in places]
    for name, of_linear in zip(names.columns, columns):
        setattr(module, name, ColumnParallelLinear.from_linear(getattr(module, name), group, sequence_parallel=False,
                                                               parts=parts, places=of_linear))
    setattr(module, names.rows, RowParallelLinear.from_linear(
        getattr(module, names.rows), group, sequence_parallel=False, places=None if places is None else places[0]))


def _others(module, names):
    """Modules with parameters that are none of the linears, by their paths."""
    return {path: one for path, one in module.named_modules()
            if any(parameter is not None for parameter in one._parameters.values()) and
            path.partition(".")[0] not in (*names.columns, names.rows)}


def _require_plain(module, names):
    for name in (*names.columns, names.rows):
        reason = why_no_plain_linear(getattr(module, name))
        if reason:
            raise _StaysWhole(f"its {name} is no plain linear: {reason}")


def _first_int(module, names):
    return next((value for value in (getattr(module, name, None) for name in names) if isinstance(value, int)), None)


def _heads(attention, names):
    """How many heads queries have, and keys and values, and the size of one."""
    columns = [getattr(attention, name).out_features for name in names.columns]
    queries, size = getattr(attention, names.rows).in_features, getattr(attention, "head_dim", None)
    if size is None:
        count = _first_int(attention, _names.QUERY_HEADS)
        if not count:
            raise _StaysWhole(f"it has neither head_dim nor {' nor '.join(_names.QUERY_HEADS)}")
        size = queries // count
    keys, rest = divmod(columns[0] - queries, 2) if names.is_fused else (columns[1], 0)
    shown = f"{', '.join(names.columns)} with {', '.join(map(str, columns))} columns"
    if rest or keys < size or queries % size or keys % size or (
            not names.is_fused and (columns[0] != queries or columns[2] != keys)) or queries % keys:
        raise _StaysWhole(f"{shown} are no queries, keys and values of heads of {size} for {names.rows} of {queries}")
    return queries // size, keys // size, size


def _own_heads(holder, counts):
    """Attributes of an attention, or of its config, that say how many heads there are, and the rank's own numbers;
    `counts` are (names, number on one rank, own number) of each.
    """
    for names, whole, own in counts:
        for name in names:
            count = getattr(holder, name, None)
            if isinstance(count, int) and count != whole:
                raise _StaysWhole(f"its {name} is {count}, where its linears say {whole}")
            if isinstance(count, int):
                yield name, own


def _deal_attention(attention, names, group):
    _require_plain(attention, names)
    ranks, (queries, keys, size) = ranks_of(group), _heads(attention, names)
    by_rank = _names.dealt_heads(queries, keys, ranks)
    if by_rank is None:
        raise _StaysWhole(f"its {queries} heads of queries, {queries // keys} of each head of keys, are too few for "
                          f"{ranks} ranks")
    norms = _others(attention, names)
    for path, one in norms.items():
        for name, parameter in one._parameters.items():
            # One that lies deeper may be of one head alone, as those of StableLM are.
            if parameter is not None and (path == "" or "." in path or parameter.shape != (size,)):
                raise _StaysWhole(f"how ranks share its {path + '.' if path else ''}{name} {list(parameter.shape)} is "
                                  f"not known: norms of heads are [{size}], one for all heads")
    (_, own_queries), (_, own_keys) = by_rank[rank_of(group)]
    counts = ((_names.QUERY_HEADS, queries, own_queries), (_names.KEY_HEADS, keys, own_keys),
              (_names.REPEATS, queries // keys, own_queries // own_keys))
    own = dict(_own_heads(attention, counts))
    config = getattr(attention, "config", None)
    if names.is_fused and config is not None:
        # Where a fused result is cut the attention may ask its config, which others have, too.
        of_config = dict(_own_heads(config, counts))
        attention.config = copy.copy(config)
        for name, count in of_config.items():
            setattr(attention.config, name, count)
    for name, count in own.items():
        setattr(attention, name, count)
    parts = (queries * size, keys * size, keys * size) if names.is_fused else None
    of_queries, of_keys = ([(begin * size, count * size) for begin, count in of_all] for of_all in zip(*by_rank))
    _deal(attention, names, group, parts, (of_queries, of_keys, of_keys))
    for one in norms.values():
        sum_gradients(one, group)
    return attention


def _deal_experts(experts, names, group):
    reason = _names.why_no_experts(experts)
    if reason:
        raise _StaysWhole(reason)
    for name, _ in experts.named_parameters():
        if name not in names:
            raise _StaysWhole(f"how ranks share its {name} is not known")
    try:
        return ParallelExperts.from_stacks(experts.gate_up_proj, experts.down_proj, group)
    except ValueError as reason:
        raise _StaysWhole(str(reason)) from None


def _deal_mlp(mlp, names, group):
    _require_plain(mlp, names)
    down = getattr(mlp, names.rows)
    width, hidden = down.in_features, down.out_features
    ups = [getattr(mlp, name) for name in names.columns]
    if any((up.out_features, up.in_features) != (width * 2 if names.is_fused else width, hidden) for up in ups):
        shown = ", ".join(f"[{one.out_features}, {one.in_features}]" for one in (*ups, down))
        raise _StaysWhole(f"{names} are {shown}, and no MLP")
    for path in _others(mlp, names):
        raise _StaysWhole(f"how ranks share its {path or 'own parameters'} is not known")
    found = tried(mlp, names)
    if found and found.mixes_columns:
        raise _StaysWhole(f"its forward() mixes columns of {', '.join(names.columns)}, of which a rank would have its "
                          "own alone")
    _deal(mlp, names, group, (width, width) if names.is_fused else None)
    activation = _names.activation_of(mlp)
    # One plan for all of it, where its parts are those of Stretto's operator; else linear by linear.
    if names == _names.MLPS[0] and activation and found and found.is_swiglu:
        gate, up, down = mlp.gate_proj, mlp.up_proj, mlp.down_proj
        if down.bias is None and (gate.bias is None) == (up.bias is None):
            return ParallelMLP(gate, up, down, activation)
    return mlp
