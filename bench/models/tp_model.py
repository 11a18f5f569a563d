"""A model of Llama's shape for benchmarks: random weights dealt to ranks, and its layers by one of tp_ways.py's ways.

Weights come of seeds, so that every rank can make its part and the reference all of them, layer by layer.
"""

import dataclasses

import torch
import torch.nn.functional as F

EPS, THETA = 1e-5, 500000.0


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    width: int  # of MLPs
    heads: int
    kv_heads: int
    layers: int
    vocabulary: int
    head: int = 128

    def layer_bytes(self, ranks):
        columns = (self.heads + 2 * self.kv_heads) * self.head
        return 2 * self.hidden * (columns + self.heads * self.head + 3 * self.width) // ranks


SHAPES = {"llama-3-8b": Shape(4096, 14336, 32, 8, 32, 128256), "llama-3-70b": Shape(8192, 28672, 64, 8, 80, 128256),
          "tiny": Shape(64, 128, 4, 2, 2, 96, 16)}


def normal(seed, *size, like, scale=1.0):
    generator = torch.Generator(device=like.device).manual_seed(seed)
    return torch.randn(*size, generator=generator, device=like.device, dtype=torch.float32).mul_(scale).to(like.dtype)


def own(tensor, rank, ranks, dim=0):
    return tensor.chunk(ranks, dim)[rank].contiguous()


@dataclasses.dataclass
class Layer:
    """A rank's weights, [N, K]: q, k, v below one another, and so gate and up."""

    qkv: torch.Tensor
    out: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    norms: torch.Tensor  # [2, hidden]

    @staticmethod
    def of(shape, index, rank, ranks, like):
        def made(seed, rows, columns):
            return normal(100 * index + seed, rows, columns, like=like, scale=columns ** -0.5)

        def parts(seed, sizes):
            return torch.cat([own(made(seed + i, size, shape.hidden), rank, ranks) for i, size in enumerate(sizes)])
        heads, kv, h = shape.heads * shape.head, shape.kv_heads * shape.head, shape.hidden
        return Layer(parts(1, (heads, kv, kv)), own(made(11, h, heads), rank, ranks, 1),
                     parts(21, (shape.width, shape.width)), own(made(31, h, shape.width), rank, ranks, 1),
                     1 + normal(100 * index + 41, 2, h, like=like, scale=0.1))

    def tensors(self):
        return [self.qkv, self.out, self.up, self.down, self.norms]

    def to(self, dtype):
        return Layer(*(one.to(dtype) for one in self.tensors()))


def head_of(shape, rank, ranks, like):
    """The rank's words of the vocabulary."""
    return own(normal(7, shape.vocabulary, shape.hidden, like=like, scale=shape.hidden ** -0.5), rank, ranks)


def cache_of(shape, sequences, context, index, rank, ranks, like):
    """Keys and values of so many tokens before: [sequences, kv_heads, context, head] twice. Their own is the last."""
    return [own(normal(1000 + 2 * index + i, shape.kv_heads, sequences, context, shape.head, like=like), rank,
                ranks).transpose(0, 1).contiguous() for i in range(2)]


def norm(x, scale):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * scale.float()).to(x.dtype)


def angles(shape, positions):
    powers = torch.arange(0, shape.head, 2, device=positions.device, dtype=torch.float32) / shape.head
    turns = positions.float()[:, None] * (THETA ** -powers)[None]
    return turns.cos(), turns.sin()


def rotated(x, cosine, sine):
    """x [rows, heads, head], whose halves are the planes' two coordinates."""
    first, second = x.float().chunk(2, -1)
    c, s = cosine[:, None], sine[:, None]
    return torch.cat([first * c - second * s, second * c + first * s], -1).to(x.dtype)


def layer(x, normed, tensors, next_scale, cosine, sine, cache, way, shape):
    """x [rows, hidden], dealt to the ranks or whole as the way has them, and its norm: those behind this layer, of
    which the next one's first norm has next_scale. Without a cache rows are one sequence; with one each is the next
    token of its own.
    """
    qkv, out, up, down, norms = tensors
    made = way.columns(normed, qkv)
    share = made.shape[-1] // (shape.head * (shape.heads + 2 * shape.kv_heads) // shape.kv_heads)
    heads = share * shape.heads // shape.kv_heads
    q, k, v = made.view(made.shape[0], -1, shape.head).split([heads, share, share], 1)
    q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
    if cache is None:
        q, k, v = (one.transpose(0, 1)[None] for one in (q, k, v))
    else:
        keys, values = cache
        keys[:, :, -1], values[:, :, -1] = k, v
        q, k, v = q[:, :, None], keys, values
    y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
    y = y[0].transpose(0, 1) if cache is None else y[:, :, 0]
    x, normed = way.down_norm(y.flatten(1), out, x, norms[1])
    return way.mlp_norm(normed, up, down, x, next_scale)
