"""What models.py times: a rank's layers forward, and back, in graphs or compiled, and the same of one rank in fp32."""

import torch
import torch.nn.functional as F

from bench.models import tp_model
from bench.models.tp_ways import Plain, gather

CACHES = 4  # layers whose keys and values lie apart: others share theirs
FILLED = 0.55  # of free memory by weights


class Model:
    """A rank's layers of one shape, and the same in fp32 of one rank, a layer at a time."""

    def __init__(self, job, name, layers):
        self.job, self.shape = job, tp_model.SHAPES[name]
        room = self.shape.layers
        if job.on_gpu:
            room = int(torch.cuda.mem_get_info()[0] * FILLED) // self.shape.layer_bytes(job.ranks)
        self.count = min(self.shape.layers, layers or max(1, min(job.all(room))))
        self.layers = [self.layer(index) for index in range(self.count)]
        self.head = tp_model.head_of(self.shape, job.rank, job.ranks, job.like)

    def layer(self, index, rank=None, ranks=None):
        rank, ranks = (self.job.rank, self.job.ranks) if ranks is None else (rank, ranks)
        return tp_model.Layer.of(self.shape, index, rank, ranks, self.job.like)

    def states(self, kind, rows, context):
        """Hidden states of all rows, and their positions."""
        x = tp_model.normal(99, rows, self.shape.hidden, like=self.job.like)
        places = torch.arange(rows, device=x.device) if kind != "decode" else torch.full(
            (rows,), context - 1, device=x.device)
        return x, tp_model.angles(self.shape, places)

    def caches(self, kind, rows, context, whole=False):
        if kind != "decode":
            return [None]
        rank, ranks = (0, 1) if whole else (self.job.rank, self.job.ranks)
        return [tp_model.cache_of(self.shape, rows, context, index, rank, ranks, self.job.like)
                for index in range(min(CACHES, self.count))]

    def part(self, x, way):
        return tp_model.own(x, self.job.rank, self.job.ranks) if way.is_dealt else x

    def logits(self, x, kind, way, head):
        """Of the last token of each sequence, whose norms are in x: this rank's words."""
        if kind != "decode":
            x = x[-1:]
        if way.is_dealt:
            x = gather(x)
        return F.linear(x if kind == "decode" else x[-1:], head)

    def forward(self, x, turns, caches, way, layer=tp_model.layer, layers=None):
        """What is behind the last layer, and its norm."""
        layers = self.layers if layers is None else layers
        normed, last = tp_model.norm(x, layers[0].norms[0]), torch.ones_like(layers[0].norms[0])
        for index, one in enumerate(layers):
            scale = layers[index + 1].norms[0] if index + 1 < len(layers) else last
            x, normed = layer(x, normed, one.tensors(), scale, *turns, caches[index % len(caches)], way, self.shape)
        return x, normed

    @torch.no_grad()
    def reference(self, kind, rows, context):
        """This rank's words of fp32 logits of one rank."""
        x, turns = self.states(kind, rows, context)
        x, caches = x.float(), self.caches(kind, rows, context, whole=True)
        normed = tp_model.norm(x, self.layers[0].norms[0])
        for index in range(self.count):
            cache = caches[index % len(caches)]
            cache = cache and [one.float() for one in cache]
            whole = self.layer(index, 0, 1).to(torch.float32)
            scale = self.layers[index + 1].norms[0] if index + 1 < self.count else torch.ones_like(x[0])
            x, normed = tp_model.layer(x, normed, whole.tensors(), scale, *turns, cache, Plain(), self.shape)
        return self.logits(normed, kind, Plain(), self.head.float())


def error_of(got, right):
    return ((got.float() - right).norm() / right.norm().clamp(min=1e-12)).item()


def captured(call):
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = call()

    def replay():
        graph.replay()
        return made
    return replay


def inference(job, model, kind, rows, name, mode, context):
    """One call, ready to be timed: it gives this rank's logits."""
    way = job.ways[name]
    whole, turns = model.states(kind, rows, context)
    x, caches = model.part(whole, way), model.caches(kind, rows, context)
    layer = torch.compile(tp_model.layer, fullgraph=True, dynamic=False) if mode == "compiled" else tp_model.layer

    @torch.no_grad()
    def call():
        return model.logits(model.forward(x, turns, caches, way, layer)[1], kind, way, model.head)
    return captured(call) if job.on_gpu and mode != "eager" else (call(), call)[1]


def training(job, model, rows, name, mode, count):
    """Forward and backward of the first layers: it gives the gradients of its input's rows and of two weights."""
    way = job.ways[name]
    if not way.trains:
        raise RuntimeError("it has no gradients")
    whole, turns = model.states("train", rows, 0)
    x = model.part(whole, way).clone().requires_grad_()
    target = model.part(tp_model.normal(98, rows, model.shape.hidden, like=job.like), way)
    layers = [tp_model.Layer(*(one.detach().requires_grad_(one.dim() == 2 and one.shape[0] > 2)
                               for one in layer.tensors())) for layer in model.layers[:count]]
    compiled = torch.compile(tp_model.layer, fullgraph=True, dynamic=False) if mode == "compiled" else tp_model.layer
    leaves = [x, *(one for layer in layers for one in layer.tensors() if one.requires_grad)]

    def call():
        y, _ = model.forward(x, turns, [None], way, compiled, layers)
        found = torch.autograd.grad((y.float() * target.float()).sum(), leaves)
        return found[0], found[1], found[4]  # of x, and of the first layer's qkv and down
    call()
    return call


def training_reference(job, model, rows, count):
    whole, turns = model.states("train", rows, 0)
    x = whole.float().requires_grad_()
    layers = [model.layer(index, 0, 1).to(torch.float32) for index in range(count)]
    first = layers[0]
    first.qkv.requires_grad_()
    first.down.requires_grad_()
    y, _ = model.forward(x, turns, [None], Plain(), layers=layers)
    target = tp_model.normal(98, rows, model.shape.hidden, like=job.like).float()
    dx, dqkv, ddown = torch.autograd.grad((y * target).sum(), [x, first.qkv, first.down])
    shape = model.shape
    sizes = [shape.heads * shape.head, shape.kv_heads * shape.head, shape.kv_heads * shape.head]
    mine = torch.cat([tp_model.own(one, job.rank, job.ranks) for one in dqkv.split(sizes)])
    return dx, mine, tp_model.own(ddown, job.rank, job.ranks, 1)
