"""Layers of experts over ranks: this rank's tensors, a reference, and what libraries make of them.

NCCL gathers tokens and scatters sums; between them one-pass kernels in Triton order rows for grouped products of
PyTorch or DeepGEMM (expert_passes.py). They have it easier than Stretto: all ranks' ids and weights are everywhere
beforehand, and so is how many rows each expert has, as buffers' sizes. FlashInfer has whole layers of experts that
are dealt to ranks. PATHS has all by the operator's name.
"""

import functools

import torch
import torch.distributed as dist

from bench.rivals.expert_passes import Passes
from bench.rivals.moe_rivals import deep_gemm, deep_gemm_products
from bench.rivals.path_base import Paths, gated, summed
from bench.shapes.moe_layers import FORM, bias_of, spaces_of

PUSH_TOKENS = 8192  # of a rank, for which FlashInfer's layers have room


def choices(tokens, experts, top_k, routing="uniform"):
    """Ids [tokens, top k], a token's different from each other, and weights: the same on all ranks, on the CPU."""
    made = torch.Generator().manual_seed(tokens + experts)
    scores, ids = torch.randn(tokens, experts, generator=made).topk(top_k, dim=1)
    if routing != "uniform":
        noise = torch.rand(tokens, experts, generator=made).clamp(1e-30, 1 - 1e-7)
        ids = (torch.tensor(bias_of(routing, experts)) - torch.log(-torch.log(noise))).topk(top_k, dim=1).indices
    return ids.int(), torch.softmax(scores, 1)


def torch_products(passes, gate_up, down):
    up_t, down_t = gate_up.transpose(1, 2), down.transpose(1, 2)

    def up_product():
        passes.both = torch._grouped_mm(passes.rows, up_t, offs=passes.ends)

    def down_product():
        passes.out = torch._grouped_mm(passes.act, down_t, offs=passes.ends)
    return up_product, down_product


class Experts(Paths):
    """Gather, each token's experts up, SwiGLU, down, weighted sums, reduce-scatter; every expert cut over the ranks."""

    deals_experts = False

    def __init__(self, place, t, h, f, experts, k):
        self.place, self.sizes = place, {"t": t, "h": h, "f": f, "experts": experts, "k": k}
        self.each, = place.divided(t=t)
        self.moved, self.times_moved = (self.each, h), 2
        share, = place.divided(experts=experts) if self.deals_experts else place.divided(f=f)
        here, inner = (share, f) if self.deals_experts else (experts, share)
        self.first, self.inner = here * place.rank if self.deals_experts else 0, inner
        self.gate_up = place.normal(here, 2 * inner, h, scale=h ** -0.5)
        self.down = place.normal(here, h, inner, scale=f ** -0.5)
        ids, weights = choices(t, experts, k, place.routing)
        local = ids.flatten().long() - self.first
        self.counts = torch.bincount(local[(local >= 0) & (local < here)], minlength=here).tolist()
        self.ids, self.weights = ids.to(place.device), weights.to(place.device)
        self.x = place.normal(self.each, h)
        self.whole, self.sums, self.y = place.empty(t, h), place.empty(t, h), place.empty(self.each, h)
        self.give()

    def give(self):
        """inputs and outputs of Stretto's. Own ids and weights are copies: among those of all ranks they may begin at
        no multiple of 16 bytes, which Stretto refuses."""
        own = slice(self.place.rank * self.each, (self.place.rank + 1) * self.each)
        self.inputs = {"x": self.x, "ids": self.ids[own].clone(), "weights": self.weights[own].clone(),
                       **self.own_weights()}
        self.outputs, self.result = {"y": torch.empty_like(self.y)}, "y"

    def own_weights(self):
        return {"wg": self.gate_up[:, :self.inner].contiguous(), "wu": self.gate_up[:, self.inner:].contiguous(),
                "wd": self.down}

    def sums_of(self, activations):
        """fp32 [t, h] of this rank; activations(expert, tokens, slots) are rows in the type."""
        found = torch.zeros_like(self.sums, dtype=torch.float32)
        for expert in range(len(self.down)):
            tokens, slots = (self.ids == expert + self.first).nonzero(as_tuple=True)
            if len(tokens):
                rows = activations(expert, tokens, slots).float() @ self.down[expert].float().t()
                found.index_add_(0, tokens, self.weights[tokens, slots, None] * rows)
        return found

    def activations(self, x, expert, tokens):
        return gated(x[tokens].float() @ self.gate_up[expert].float().t()).bfloat16()

    def reference(self):
        x = self.place.gathered(self.x)
        return self.place.own_rows(summed(self.sums_of(
            lambda expert, tokens, _: self.activations(x, expert, tokens)))).clone()

    @functools.cached_property
    def forms(self):
        """[(what it is called, the passes around a library's products, these)]."""
        def passes(space, align, is_masked=False):
            return Passes(self.ids, self.weights, self.first, space, align, is_masked, self.sizes["h"], self.inner,
                          self.place.device)
        found = passes(self.counts, 1)
        made = [("nccl torch", found, torch_products(found, self.gate_up, self.down))]
        align, spaces = spaces_of(self.counts) if deep_gemm else (0, {})
        for form, space in spaces.items():
            found = passes(space, align, form == "masked")
            made.append((f"nccl {FORM}{form}", found, deep_gemm_products(found, form, self.gate_up, self.down)))
        return made

    def up(self, passes, product):
        dist.all_gather_into_tensor(self.whole, self.x)
        passes.order(self.whole)
        product()
        passes.activate()

    def finish(self, passes, product):
        product()
        passes.total(self.sums)
        dist.reduce_scatter_tensor(self.y, self.sums)
        return self.y

    def call(self, passes, products):
        def run():
            self.up(passes, products[0])
            return self.finish(passes, products[1])
        return run

    def theirs(self):
        return {label: self.call(passes, products) for label, passes, products in self.forms}

    def alone(self):
        """The products by the first library, of rows that stand in their order."""
        _, passes, (up_product, down_product) = self.forms[0]
        self.whole.normal_()
        passes.order(self.whole)
        passes.act.normal_()

        def products():
            up_product()
            down_product()
        return {"products": products}


class DealtExperts(Experts):
    """Dispatch, each token's experts, weighted sums, combine: experts dealt to ranks."""

    deals_experts = True

    def link_bytes(self):
        """A token once to each other rank that has an expert of its choice, and a sum of it back."""
        place, here = self.place, len(self.down)
        owners = self.ids[place.rank * self.each:][:self.each] // here
        sent = sum((owners == rank).any(1).sum().item() for rank in range(place.ranks) if rank != place.rank)
        brought = (self.ids // here == place.rank).any(1)
        brought[place.rank * self.each:][:self.each] = False
        return (sent + brought.sum().item()) * self.sizes["h"] * 2

    def by_flashinfer(self, layers):
        """A call of its push rounds, all of a layer in one; layers is flashinfer.moe_ep."""
        t, h, f, experts, k = self.sizes.values()
        place, own = self.place, slice(self.place.rank * self.each, (self.place.rank + 1) * self.each)
        fleet = layers.FleetParams(num_experts=experts, max_tokens_per_rank=max(self.each, PUSH_TOKENS),
                                   token_hidden_size=h)
        boot = layers.BootstrapConfig(world_size=place.ranks, rank=place.rank, process_group=dist.group.WORLD,
                                      device=place.rank)
        kernel = layers.Sm90_Bf16_Bf16_Bf16_PushCake_MegaMoeConfig(intermediate_size=f, top_k=k, init_timeout_s=60.0)
        layer = layers.MoEEpLayer(boot, fleet, layers.MoEWeightPack(w13=self.gate_up, w2=self.down),
                                  backend=layers.MegaConfig(megakernel=kernel))
        room, y = layer.create_workspace(self.each), torch.empty_like(self.y)
        tensors = layers.MoEEpTensors(hidden_states=self.x, topk_ids=self.ids[own].clone(),
                                      topk_weights=self.weights[own].clone(), output=y)

        def call():
            layer(tensors, workspace=room)
            return y
        return call


class ExpertsUp(Experts):
    """The first half: gather, each token's experts up, SwiGLU. Libraries leave rows in their experts' order."""

    def give(self):
        t, k = self.sizes["t"], self.sizes["k"]
        own = slice(self.place.rank * self.each, (self.place.rank + 1) * self.each)
        both, self.times_moved = self.own_weights(), 1
        self.inputs = {"x": self.x, "ids": self.ids[own].clone(), "wg": both["wg"], "wu": both["wu"]}
        self.outputs, self.result = {"a": self.place.empty(t * k, self.inner)}, "a"

    def reference(self):
        x, k = self.place.gathered(self.x), self.sizes["k"]
        found = torch.zeros(len(self.ids) * k, self.inner, device=self.place.device)
        for expert in range(len(self.down)):
            tokens, slots = (self.ids == expert).nonzero(as_tuple=True)
            found[tokens * k + slots] = self.activations(x, expert, tokens).float()
        return found

    def call(self, passes, products):
        def run():
            self.up(passes, products[0])
            run.passes = passes
            return passes.act
        return run

    def look_of(self, run):
        """By choice, as Stretto has them."""
        return lambda act: act[run.passes.places.long()]

    def alone(self):
        _, passes, (up_product, _) = self.forms[0]
        self.whole.normal_()
        passes.order(self.whole)
        return {"products": up_product}


class ExpertsDown(Experts):
    """The second half: each row's expert down, weighted sums, reduce-scatter. Rows are by choice; libraries put them in
    order first. *in order* are libraries whose rows somebody has put so before, which is less than Stretto does."""

    def give(self):
        t, k = self.sizes["t"], self.sizes["k"]
        self.act, self.times_moved = self.place.normal(t * k, self.inner), 1
        self.inputs = {"a": self.act, "ids": self.ids, "weights": self.weights, "wd": self.down}
        self.outputs, self.result = {"y": torch.empty_like(self.y)}, "y"

    def reference(self):
        k = self.sizes["k"]
        return self.place.own_rows(summed(self.sums_of(
            lambda _, tokens, slots: self.act[tokens * k + slots]))).clone()

    def call(self, passes, products):
        def run():
            passes.order_choices(self.act)
            return self.finish(passes, products[1])
        return run

    def in_order(self, passes, products):
        passes.order_choices(self.act)
        return lambda: self.finish(passes, products[1])

    def alone(self):
        _, passes, (_, down_product) = self.forms[0]
        passes.order_choices(self.act)
        return {"products": down_product,
                **{f"{label} in order": self.in_order(passes, products) for label, passes, products in self.forms}}


PATHS = {"moe-tp": Experts, "moe-tp-up": ExpertsUp, "moe-tp-down": ExpertsDown, "moe-ep": DealtExperts}
SIZES = dict.fromkeys(PATHS, ("t", "h", "f", "experts", "k"))
