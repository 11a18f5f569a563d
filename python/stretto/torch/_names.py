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


def activation_of(mlp: nn.Module) -> Optional[str]:
    """What Stretto's operator calls an MLP's function; None where it has none, or it stands in forward() alone."""
    for name in FUNCTIONS:
        kind = getattr(mlp, name, None)
        if kind is not None:
            return ACTIVATIONS.get(getattr(kind, "__name__", type(kind).__name__).lower())
    return None
