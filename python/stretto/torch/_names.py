"""The names by which models have their attentions and MLPs: a row for each kind of model."""

import dataclasses
from typing import Iterable, Optional, Tuple

from torch import nn


@dataclasses.dataclass(frozen=True)
class Names:
    """Linears of a module.

    columns  each rank has its own columns of their results. Where it is but one, its weight has those of the others
             below one another
    rows     each rank has its own columns of its x
    """

    columns: Tuple[str, ...]
    rows: str

    @property
    def is_fused(self) -> bool:
        return len(self.columns) == 1

    def are_in(self, module: nn.Module) -> bool:
        return all(isinstance(getattr(module, name, None), nn.Linear) for name in (*self.columns, self.rows))

    def __str__(self):
        return ", ".join((*self.columns, self.rows))


ATTENTIONS = (
    Names(("q_proj", "k_proj", "v_proj"), "o_proj"),  # Llama, Qwen and Mistral of Hugging Face's
    Names(("wq", "wk", "wv"), "wo"),                  # Llama's own repository, torchtitan
    Names(("qkv_proj",), "o_proj"),                   # Phi-3 of Hugging Face's
)
MLPS = (
    Names(("gate_proj", "up_proj"), "down_proj"),
    Names(("w1", "w3"), "w2"),
    Names(("gate_up_proj",), "down_proj"),
)
# Of experts: their weights, stacks of matrices, and what chooses them, which every rank has whole.
EXPERTS = ("gate_up_proj", "down_proj")
ROUTERS = ("gate", "router", "shared_expert_gate")
# How transformers say that the weights of experts lie, and what Stretto takes.
LAYOUT = {"is_concatenated": True, "is_transposed": False, "has_gate": True, "has_bias": False,
          "has_post_expert_norm": False}
# What makes logits.
HEADS = ("lm_head", "output")
# What attentions of several releases keep of their heads. Each rank has its own.
QUERY_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_local_heads")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_local_kv_heads")
REPEATS = ("num_key_value_groups", "n_rep")  # queries' heads of each of keys'
# The functions of MLPs, as their modules have them, and what operators call them.
FUNCTIONS = ("act_fn", "activation_fn")
ACTIVATIONS = {"silu": "swiglu", "siluactivation": "swiglu", "swish": "swiglu"}


def names_in(module: nn.Module, table: Iterable[Names]) -> Optional[Names]:
    return next((names for names in table if names.are_in(module)), None)


def are_experts(module: nn.Module) -> bool:
    return all(isinstance(one, nn.Parameter) and one.dim() == 3
               for one in (getattr(module, name, None) for name in EXPERTS))


def why_no_experts(module: nn.Module) -> Optional[str]:
    """Why Stretto's experts do not what these do; None: they do."""
    for name, right in LAYOUT.items():
        value = getattr(module, name, False if name == "has_post_expert_norm" else None)
        if value is None:
            return f"how its weights lie is not known: it has no {name}, as transformers' experts have"
        if value != right:
            return f"its {name} is {value}, and Stretto takes {right}"
    gate = getattr(module, "_apply_gate", None)
    if getattr(gate, "__name__", "_default_apply_gate") != "_default_apply_gate":
        return "it has a gate of its own"
    if activation_of(module) != "swiglu":
        return f"its function is {next((getattr(module, name) for name in FUNCTIONS if hasattr(module, name)), None)}"
    return None


def activation_of(mlp: nn.Module) -> Optional[str]:
    """What Stretto's operator calls an MLP's function; None where it has none, or it stands in forward() alone."""
    for name in FUNCTIONS:
        kind = getattr(mlp, name, None)
        if kind is not None:
            return ACTIVATIONS.get(getattr(kind, "__name__", type(kind).__name__).lower())
    return None


def dealt_heads(queries: int, keys: int, ranks: int):
    """Every rank's heads, ((begin, count) of queries, (begin, count) of keys): those of keys are what its queries use,
    as many queries for each. Where there are more ranks than heads of keys, several ranks have the same head, and a
    part of its queries. None: there are ranks for which nothing would be left.
    """
    of_each = queries // keys
    if keys >= ranks:
        heads = [_even_part(keys, rank, ranks) for rank in range(ranks)]
        return [((begin * of_each, count * of_each), (begin, count)) for begin, count in heads]
    head_of = [rank * keys // ranks for rank in range(ranks)]
    found = []
    for rank, head in enumerate(head_of):
        begin, count = _even_part(of_each, rank - head_of.index(head), head_of.count(head))
        if count == 0:
            return None
        found.append(((head * of_each + begin, count), (head, 1)))
    return found


def _even_part(size: int, rank: int, ranks: int):
    """Of parts that differ by one at most, the larger ones first."""
    least, rest = divmod(size, ranks)
    return rank * least + min(rank, rest), least + (rank < rest)
