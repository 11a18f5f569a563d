"""Small models as their authors write them, and what parallelize() must keep of each: numbers and checkpoints."""

from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F
from torch import nn

import stretto.torch as st

RANKS, HIDDEN, WIDTH, HEADS, KEYS, SIZE = 2, 32, 64, 4, 2, 8


def attend(q, k, v):
    """Of [..., heads, rows, head_dim]."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(-2, -3).flatten(-2)


class Titan(nn.Module):
    """As torchtitan's and Llama's own are; heads are asked for by their number."""

    class Attention(nn.Module):
        def __init__(self, keys, heads=HEADS):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.n_rep, self.head_dim = heads, keys, heads // keys, SIZE
            self.wq, self.wo = nn.Linear(HIDDEN, heads * SIZE), nn.Linear(heads * SIZE, HIDDEN, bias=False)
            self.wk, self.wv = nn.Linear(HIDDEN, keys * SIZE, bias=False), nn.Linear(HIDDEN, keys * SIZE)
            self.q_norm, self.k_norm = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE, bias=False)

        def forward(self, x):
            counts = self.n_heads, self.n_kv_heads, self.n_kv_heads
            q, k, v = (one(x).view(*x.shape[:-1], count, self.head_dim)
                       for one, count in zip((self.wq, self.wk, self.wv), counts))
            k = self.k_norm(k).repeat_interleave(self.n_rep, -2)
            v = v.repeat_interleave(self.n_rep, -2)
            return self.wo(attend(*(one.transpose(-2, -3) for one in (self.q_norm(q), k, v))))

    class FeedForward(nn.Module):
        def __init__(self, width=WIDTH):
            super().__init__()
            self.w1, self.w3 = nn.Linear(HIDDEN, width, bias=False), nn.Linear(HIDDEN, width, bias=False)
            self.w2 = nn.Linear(width, HIDDEN, bias=False)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    def __init__(self, keys=KEYS, heads=HEADS, width=WIDTH):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({
            "attention_norm": nn.LayerNorm(HIDDEN), "attention": self.Attention(keys, heads),
            "feed_forward": self.FeedForward(width)}) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["attention"](layer["attention_norm"](x))
            x = x + layer["feed_forward"](x)
        return x


class Fused(nn.Module):
    """As Phi-3 is: one weight for queries, keys and values, and one for both of an MLP."""

    class Config:
        def __init__(self, keys, heads):
            self.num_attention_heads, self.num_key_value_heads = heads, keys

    class Attention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, self.head_dim = config, SIZE
            self.num_key_value_heads = config.num_key_value_heads
            heads = config.num_attention_heads
            self.num_key_value_groups = heads // self.num_key_value_heads
            self.qkv_proj = nn.Linear(HIDDEN, (heads + 2 * self.num_key_value_heads) * SIZE)
            self.o_proj = nn.Linear(heads * SIZE, HIDDEN, bias=False)

        def forward(self, x):
            sizes = [count * self.head_dim for count in (
                self.config.num_attention_heads, self.num_key_value_heads, self.num_key_value_heads)]
            q, k, v = (one.unflatten(-1, (-1, self.head_dim)).transpose(-2, -3)
                       for one in self.qkv_proj(x).split(sizes, -1))
            k, v = (one.repeat_interleave(self.num_key_value_groups, -3) for one in (k, v))
            return self.o_proj(attend(q, k, v))

    class Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gate_up_proj = nn.Linear(HIDDEN, 2 * width)
            self.down_proj = nn.Linear(width, HIDDEN, bias=False)

        def forward(self, x):
            gate, up = self.gate_up_proj(x).chunk(2, -1)
            return self.down_proj(F.gelu(gate) * up)

    def __init__(self, keys=KEYS, heads=HEADS, width=WIDTH):
        super().__init__()
        self.config = self.Config(keys, heads)
        self.self_attn, self.mlp = self.Attention(self.config), self.Mlp(width)

    def forward(self, x):
        x = x + self.self_attn(x)
        return x + self.mlp(x)


class Mixture(nn.Module):
    """As transformers' are: experts in stacks, and what chooses them."""

    class Experts(nn.Module):
        def __init__(self, experts, width):
            super().__init__()
            self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * width, HIDDEN) / 8)
            self.down_proj = nn.Parameter(torch.randn(experts, HIDDEN, width) / 8)
            self.act_fn = nn.SiLU()
            self.is_concatenated, self.is_transposed, self.has_gate, self.has_bias = True, False, True, False

        def forward(self, x, ids, weights):
            y = torch.zeros_like(x)
            for expert, (both, down) in enumerate(zip(self.gate_up_proj, self.down_proj)):
                gate, up = F.linear(x, both).chunk(2, -1)
                y = y + F.linear(self.act_fn(gate) * up, down) * (weights * (ids == expert)).sum(-1, keepdim=True)
            return y

    def __init__(self, experts=3, width=24):
        super().__init__()
        self.gate, self.experts = nn.Linear(HIDDEN, experts, bias=False), self.Experts(experts, width)

    def forward(self, x):
        rows = x.flatten(0, -2)
        weights, ids = self.gate(rows).softmax(-1).topk(2)
        return x + self.experts(rows, ids, weights).view(x.shape)


def made(kind, *arguments):
    torch.manual_seed(3)
    return kind(*arguments)


def losses(model, x):
    y = model(x)
    y.float().square().sum().backward()
    return y.detach()


class Parallelized(Numbers):
    def check(self, kind, *arguments, ranks=RANKS):
        """Results and all gradients are those of the whole model, and whole checkpoints are taken."""
        x = normal(1, 2, 6, HIDDEN, dtype=torch.float32)
        right, others = made(kind, *arguments), [made(kind, *arguments) for _ in range(ranks)]
        expected = losses(right, x)

        def program(group):
            model = st.parallelize(others[group.rank], group)
            y = losses(model, x)
            cuts = {f"{path}.{name}": cut for path, layer in model.named_modules()
                    for name, cut in getattr(layer, "cuts", {}).items()}
            other = st.parallelize(made(kind, *arguments).to("meta"), group)
            other.load_state_dict(right.state_dict(), assign=True)
            return y, {name: one.grad for name, one in model.named_parameters()}, cuts, other(x).detach()

        found = run(ranks, program)
        self.assertFalse(st.report().fallbacks, st.report())
        for y, gradients, cuts, again in found:
            self.assert_close(y, expected)
            self.assert_close(again, expected)
            self.assertTrue(cuts)
            for name, parameter in right.named_parameters():
                part = cuts[name].own(parameter.grad) if name in cuts else parameter.grad
                with self.subTest(name):
                    largest = parameter.grad.abs().max()
                    self.assert_close(gradients[name] / largest, part / largest)
        return others
