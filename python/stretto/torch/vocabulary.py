"""Vocabularies that are dealt to the ranks of a group: of what makes logits, and embeddings that share its weight."""

import torch
import torch.nn.functional as F
from torch import nn

from . import _names
from ._dealt import Dealt
from ._whole import summed
from .groups import GroupLike, rank_of
from .modules import ColumnParallelLinear

HOW = ("gathered", "cut")


class VocabularyParallelEmbedding(Dealt):
    """As nn.Embedding, each rank with its block of the vocabulary: what a rank has not is zeros, and ranks' results are
    added up by an all-reduce of PyTorch's.

    ids [...] of the whole vocabulary, the same on all ranks -> [..., embedding_dim]; weight is
    [num_embeddings / R, embedding_dim]. Where R does not divide the vocabulary, rank r has the r-th block of
    ceil(num_embeddings / R) rows, with zeros behind them where they are fewer. Ids that are no row give zeros. It is
    made of a whole embedding by from_embedding().
    """

    @classmethod
    def from_embedding(cls, embedding: nn.Embedding, group: GroupLike = None) -> "VocabularyParallelEmbedding":
        """Of an embedding that is the same on all ranks. Raises ValueError where the embedding does more than to take
        rows of its weight.
        """
        if type(embedding) is not nn.Embedding or embedding.max_norm is not None or embedding.sparse or (
                embedding.scale_grad_by_freq):
            raise ValueError(f"{type(embedding).__name__} does more than to take rows: max_norm, scale_grad_by_freq, "
                             "sparse and forward() of others are not dealt")
        made = cls(group)
        made.num_embeddings, made.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        made.padding_idx = embedding.padding_idx
        made._take("weight", embedding.weight, 0, "num_embeddings")
        return made

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, ranks={self.ranks}"

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        (of_ranks,) = self.cuts["weight"].places
        begin, own = of_ranks[rank_of(self.group)]
        places = ids - begin
        is_own = (places >= 0) & (places < own)
        # The row of the padding has no gradient, on the rank that has it.
        padding = None if self.padding_idx is None else self.padding_idx - begin
        rows = F.embedding(torch.where(is_own, places, 0), self.weight,
                           padding if padding is not None and 0 <= padding < own else None)
        return summed(rows.masked_fill(~is_own.unsqueeze(-1), 0), self.group)


class Head:
    """What makes a model's logits: an nn.Linear of a name that is known, with a column for each row of an embedding."""

    def __init__(self, model: nn.Module):
        """Raises ValueError where there is none."""
        sizes = {one.num_embeddings for one in model.modules() if isinstance(one, nn.Embedding)}
        self.path, self.linear = next(((path, one) for path, one in model.named_modules()
                                       if path.rpartition(".")[2] in _names.HEADS and isinstance(one, nn.Linear) and
                                       one.out_features in sizes), (None, None))
        if self.linear is None:
            raise ValueError(f"{type(model).__name__} has no vocabulary that is known: no nn.Linear called "
                             f"{' or '.join(_names.HEADS)} with a column for each row of an nn.Embedding")
        self.model = model

    def deal(self, group: str, is_gathered: bool) -> None:
        """In place, with embeddings that share its weight. Raises ValueError for what cannot be dealt, and has changed
        nothing then.
        """
        column = ColumnParallelLinear.from_linear(self.linear, group, sequence_parallel=False,
                                                  gather_output=is_gathered)
        tied = [one for one in self.model.modules()
                if isinstance(one, nn.Embedding) and one.weight is self.linear.weight]
        made = [(one, VocabularyParallelEmbedding.from_embedding(one, group)) for one in tied]
        for _, embedding in made:
            embedding.weight = column.weight
        for old, new in ((self.linear, column), *made):
            put(self.model, old, new)


def put(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Wherever the model has it: layers may share what they are made of."""
    if old is new:
        return
    for path, _ in [at for at in model.named_modules(remove_duplicate=False) if at[1] is old]:
        parent, _, child = path.rpartition(".")
        setattr(model.get_submodule(parent), child, new)
