"""Rows that go to the experts that their tokens choose, and come back as weighted sums, with nothing between: this rank's
tensors, a reference, and what libraries make of them.

By NCCL in two forms. "nccl" gathers all tokens and scatters sums. "nccl a2a" sends each token once to every rank that has
an expert of its choice, by all_to_all_single, and its sum back. PyTorch's index_select and one-pass kernels in Triton
(expert_passes.py) put rows together and in order, and add them up. They have it easier than Stretto: how many rows go
from rank to rank and where each lies is known beforehand, where a program would exchange counts and wait for them. What
they make of a dispatch lies in the order of the experts, Stretto's by choice; what is compared is by choice.
"""

import torch
import torch.distributed as dist

from bench.rivals.expert_passes import sum_rows, weigh_received
from bench.rivals.expert_paths import choices
from bench.rivals.path_base import Paths, summed


class Moved(Paths):
    """What dispatch and combine have in common: who has which rows, known to this benchmark."""

    schedules = ("auto", "low-latency", "tiles")
    goes = returns = False

    def __init__(self, place, t, h, experts, k):
        self.place, self.sizes = place, {"t": t, "h": h, "experts": experts, "k": k}
        (self.each,), (self.here,) = place.divided(t=t), place.divided(experts=experts)
        self.first = self.here * place.rank
        self.ids, self.weights = (one.to(place.device) for one in choices(t, experts, k))
        self.own = slice(place.rank * self.each, (place.rank + 1) * self.each)
        ids = self.ids.flatten().long() - self.first
        chosen = ((ids >= 0) & (ids < self.here)).nonzero()[:, 0]
        # Choices of this rank's experts, expert by expert, and the place of each among them.
        self.order = chosen[torch.argsort(ids[chosen], stable=True)]
        self.places = self.numbers(torch.full((t * k,), -1), self.order).view(t, k)
        self.counts = torch.bincount(ids[chosen], minlength=self.here).int()
        # By token and rank: whether it goes there.
        goes = (self.ids // self.here).unsqueeze(-1).eq(torch.arange(place.ranks, device=place.device)).any(1)
        mine, theirs = goes[self.own], goes[:, place.rank].view(place.ranks, self.each)
        self.sent, self.received = mine.sum(0).tolist(), theirs.sum(1).tolist()
        self.send_tokens = mine.t().nonzero()[:, 1]
        self.receive_tokens = theirs.flatten().nonzero()[:, 0]
        self.rows = place.empty(len(self.order), h)
        self.whole, self.sums, self.y = place.empty(t, h), place.empty(t, h), place.empty(self.each, h)
        self.there, self.brought = place.empty(len(self.send_tokens), h), place.empty(len(self.receive_tokens), h)
        self.prepare_sums(mine)
        self.give()

    def numbers(self, to, at):
        """Position i stands at at[i]."""
        to = to.to(self.place.device, torch.int32)
        to[at] = torch.arange(len(at), device=self.place.device, dtype=torch.int32)
        return to

    def prepare_sums(self, mine):
        """Tables for sums: of what was received its own choices, and of own tokens what each rank sends back."""
        self.part_places = self.places[self.receive_tokens].contiguous()
        self.part_weights = self.weights[self.receive_tokens].contiguous()
        back = torch.full((self.place.ranks, self.each), -1)
        at = mine.t().flatten().nonzero()[:, 0]
        self.back_places = self.numbers(back.flatten(), at).view(self.place.ranks, self.each).t().contiguous()
        self.ones = torch.ones(self.each, self.place.ranks, device=self.place.device)
        self.sums_of_ranks = torch.empty_like(self.brought)

    def link_bytes(self):
        others = [rank for rank in range(self.place.ranks) if rank != self.place.rank]
        out = sum(self.sent[rank] for rank in others) if self.goes else 0
        back = sum(self.received[rank] for rank in others) if self.returns else 0
        return (out + back) * self.sizes["h"] * 2

    def alone(self):
        return {}

    def gather(self):
        """All tokens; those of this rank's experts in order."""
        dist.all_gather_into_tensor(self.whole, self.x)
        return torch.index_select(self.whole, 0, self.tokens_of_rows, out=self.rows)

    def send(self):
        torch.index_select(self.x, 0, self.send_tokens, out=self.there)
        dist.all_to_all_single(self.brought, self.there, self.received, self.sent)
        return torch.index_select(self.brought, 0, self.brought_of_rows, out=self.rows)

    def scatter_sums(self):
        sum_rows(self.rows, self.weights, self.places, self.sums)
        dist.reduce_scatter_tensor(self.y, self.sums)
        return self.y

    def send_back(self):
        sum_rows(self.rows, self.part_weights, self.part_places, self.sums_of_ranks)
        dist.all_to_all_single(self.there, self.sums_of_ranks, self.sent, self.received)
        sum_rows(self.there, self.ones, self.back_places, self.y)
        return self.y

    def prepare_dispatch(self):
        self.x = self.place.normal(self.each, self.sizes["h"])
        self.tokens_of_rows = self.order // self.sizes["k"]
        received = self.numbers(torch.full((self.sizes["t"],), -1), self.receive_tokens)
        self.brought_of_rows = received[self.tokens_of_rows].long()

    def weighed(self, rows):
        """fp32 sums of all tokens over this rank's experts; `rows` in the order of these."""
        found = torch.zeros_like(self.sums, dtype=torch.float32)
        weights = self.weights.flatten()[self.order]
        return found.index_add_(0, self.order // self.sizes["k"], weights[:, None] * rows.float())


class Dispatch(Moved):
    goes = True

    def give(self):
        t, h, _, k = self.sizes.values()
        self.prepare_dispatch()
        self.inputs = {"x": self.x, "ids": self.ids}
        self.outputs = {"d": self.place.empty(t * k, h), "counts": torch.empty_like(self.counts)[:, None]}
        self.result = "d"

    def look(self, result):
        return result[self.order]

    def look_of(self, _):
        return lambda rows: rows

    def reference(self):
        return self.place.gathered(self.x)[self.order // self.sizes["k"]].float()

    def theirs(self):
        return {"nccl": self.gather, "nccl a2a": self.send}


class Combine(Moved):
    returns = True

    def give(self):
        t, h, _, k = self.sizes.values()
        d = self.place.normal(t * k, h)
        self.rows = d[self.order].contiguous()
        self.inputs = {"d": d, "ids": self.ids, "weights": self.weights[self.own].clone()}
        self.outputs, self.result = {"y": torch.empty_like(self.y)}, "y"

    def reference(self):
        return self.place.own_rows(summed(self.weighed(self.rows))).clone()

    def theirs(self):
        return {"nccl": self.scatter_sums, "nccl a2a": self.send_back}


class DispatchCombine(Moved):
    goes = returns = True

    def give(self):
        self.prepare_dispatch()
        self.inputs = {"x": self.x, "ids": self.ids[self.own].clone(),
                       "weights": self.weights[self.own].clone()}
        self.outputs, self.result = {"y": torch.empty_like(self.y)}, "y"

    def reference(self):
        x = self.place.gathered(self.x)
        return self.place.own_rows(summed(self.weighed(x[self.tokens_of_rows]))).clone()

    def theirs(self):
        def nccl():
            self.gather()
            return self.scatter_sums()

        def nccl_a2a():
            self.send()
            return self.send_back()
        return {"nccl": nccl, "nccl a2a": nccl_a2a}

    def by_flashinfer(self, made):
        """A call of its all-to-all, there and back; made(tokens, top_k, experts, hidden) is one of its MoeAlltoAll. It
        has a row of each token for each rank, which is multiplied with its weights there in a pass of its own, and
        sends no dispatch without a combine."""
        _, h, experts, k = self.sizes.values()
        moves = made(self.each, k, experts, h)
        payloads = [self.x, self.inputs["ids"], self.inputs["weights"]]

        def call():
            x, ids, weights = moves.dispatch(self.inputs["ids"], payloads, self.each)
            rows = moves.get_combine_payload_tensor_in_workspace(self.each, h, torch.bfloat16)
            weigh_received(x, ids, weights, self.first, self.here, rows)
            return moves.combine(rows, self.each, payload_in_workspace=True)
        return call


PATHS = {"dispatch": Dispatch, "combine": Combine, "dispatch-combine": DispatchCombine}
SIZES = dict.fromkeys(PATHS, ("t", "h", "experts", "k"))
