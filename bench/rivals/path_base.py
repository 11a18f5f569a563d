"""What operators' tensors and sequences of libraries have in common: where tensors are made, pieces of references, and
what a benchmark asks of each operator."""

import dataclasses

import torch
import torch.distributed as dist

EPS = 1e-6  # of Stretto's norms, unless a graph says another


@dataclasses.dataclass(frozen=True)
class Place:
    """Where tensors are made: a rank of a group of PyTorch, and its device."""

    rank: int
    ranks: int
    device: str
    group: str
    routing: str = "uniform"  # of those of moe_layers.ROUTINGS

    def normal(self, *shape, scale=1.0, same=False):
        """Of this rank; with `same` what all ranks have. Numbers follow each other as calls do."""
        made = torch.empty(*shape, device=self.device, dtype=torch.bfloat16).normal_()
        if same:
            dist.broadcast(made, 0)
        return made.mul_(scale) if scale != 1 else made

    def empty(self, *shape):
        return torch.empty(*shape, device=self.device, dtype=torch.bfloat16)

    def symmetric(self, *shape):
        """Memory that the other ranks reach; no such thing on a CPU."""
        import torch.distributed._symmetric_memory as symm_mem
        made = symm_mem.empty(*shape, device=self.device, dtype=torch.bfloat16)
        symm_mem.rendezvous(made, self.group)
        return made

    def divided(self, **sizes):
        for name, size in sizes.items():
            if size % self.ranks:
                raise ValueError(f"PyTorch's collectives need {name} that {self.ranks} divides, not {size}")
            yield size // self.ranks

    def gathered(self, x):
        whole = x.new_empty(x.shape[0] * self.ranks, *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous())
        return whole

    def own_rows(self, whole):
        return whole.chunk(self.ranks)[self.rank]


def product(a, b):
    return a.float() @ b.float().t()


def summed(partial):
    dist.all_reduce(partial)
    return partial


def normed(total, scale):
    """In fp32 of sums that are rounded to the type, as all have it."""
    wide = total.bfloat16().float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * scale.float()


def gated(both):
    gate, up = both.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


class Paths:
    """inputs and outputs: tensors by their names in the graph, on this rank. `result` is the output that is compared.

    alone()   parts by themselves, by label, whose results nobody looks at
    theirs()  sequences of libraries by label; each call enqueues one run and returns its result
    parts()   (operators of Stretto with their sizes, by name, and a call of these operations): the same by several
              operators with kernels of one pass between; None where that is no other way
    """

    most_error = 1e-2
    schedules = ("auto",)

    def parts(self):
        return None

    def link_bytes(self):
        """The least that leaves this GPU: for each time that rows of `moved` columns are gathered or their sums
        scattered, what this rank has of them, once for every other rank."""
        rows, columns = self.moved
        return self.times_moved * (self.place.ranks - 1) * rows * columns * 2

    def look(self, result):
        """What of a result is compared."""
        return result

    def fused_columns(self, x, weight):
        """PyTorch's AsyncTP: gathered rows times a weight."""
        return torch.ops.symm_mem.fused_all_gather_matmul(x, [weight.t()], 0, self.place.group, return_A=False)[1][0]

    def fused_rows(self, x, weight):
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(x, weight.t(), "sum", 0, self.place.group)

    def on_gpus(self, **calls):
        """Those that need symmetric memory."""
        return {} if self.place.device == "cpu" else {name.replace("_", "-"): call for name, call in calls.items()}
