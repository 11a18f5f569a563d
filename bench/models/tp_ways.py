"""How linears of a tensor-parallel model may be computed: what models.py times beside each other.

A way has columns(x, weight), whose weight is this rank's rows, and down(x, weight), whose weight is its columns and
whose result is summed over the ranks. Between them rows are dealt to the ranks (`is_dealt`) or whole on each.
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F

import stretto.torch as st
from bench.models.tp_model import EPS, norm


# Newer releases have other names for them.
GATHER = getattr(collectives, "all_gather_single", None) or collectives.all_gather_tensor
SCATTER = getattr(collectives, "reduce_scatter_single", None) or collectives.reduce_scatter_tensor


def gather(x):
    return collectives.wait_tensor(GATHER(x.contiguous(), 0, dist.group.WORLD))


def reduce(x):
    return collectives.wait_tensor(collectives.all_reduce(x, "sum", dist.group.WORLD))


def scatter(x):
    if x.device.type == "cpu":  # gloo of older releases has none
        return reduce(x).chunk(dist.get_world_size())[dist.get_rank()].contiguous()
    return collectives.wait_tensor(SCATTER(x, "sum", 0, dist.group.WORLD))


def with_gradient(forth, back):
    """A function of one tensor, whose gradient is another one's."""
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return forth(x)

        @staticmethod
        def backward(ctx, gradient):
            return back(gradient)
    return Function.apply


_gather, _scatter = with_gradient(gather, scatter), with_gradient(scatter, gather)
_reduce, _copy = with_gradient(reduce, lambda x: x.clone()), with_gradient(lambda x: x.clone(), reduce)


class Way:
    is_dealt = False
    trains = True
    is_floor = False  # it computes what each rank does and nothing of all: no way can be faster

    def columns(self, x, weight):
        return F.linear(x, weight)

    def down(self, x, weight):
        return F.linear(x, weight)

    def mlp(self, x, up, down):
        """up has the rows of the gate, then the others."""
        gate, value = self.columns(x, up).chunk(2, -1)
        return self.down(F.silu(gate) * value, down)

    def down_norm(self, y, weight, x, scale):
        """x and what down makes of y added up, and the norm of that."""
        x = x + self.down(y, weight)
        return x, norm(x, scale)

    def mlp_norm(self, normed, up, down, x, scale):
        x = x + self.mlp(normed, up, down)
        return x, norm(x, scale)

    def ready(self):
        """Raises RuntimeError with the reason where this way cannot be gone here."""


class Plain(Way):
    """PyTorch on one rank: nothing is communicated."""

    def ready(self):
        if dist.is_initialized() and dist.get_world_size() > 1:
            raise RuntimeError("one rank only")


class Alone(Way):
    """Each rank's products, and nothing between ranks: what is left where all communication is hidden."""

    is_floor = True


class AloneRows(Alone):
    """The same with rows dealt to the ranks: a copy of a rank's rows stands for those of the others."""

    is_dealt = True

    def columns(self, x, weight):
        return F.linear(torch.cat([x] * dist.get_world_size()), weight)

    def down(self, x, weight):
        return F.linear(x, weight).chunk(dist.get_world_size())[dist.get_rank()]


class Nccl(Way):
    """cuBLAS, then NCCL's all-reduce."""

    def columns(self, x, weight):
        return F.linear(_copy(x) if torch.is_grad_enabled() and x.requires_grad else x, weight)

    def down(self, x, weight):
        return _reduce(F.linear(x, weight))


class NcclRows(Way):
    """NCCL's all-gather before, its reduce-scatter behind cuBLAS."""

    is_dealt = True

    def columns(self, x, weight):
        return F.linear(_gather(x), weight)

    def down(self, x, weight):
        return _scatter(F.linear(x, weight))


class AsyncTp(Way):
    """PyTorch's fused operators, which its asynchronous tensor parallelism puts into compiled models."""

    is_dealt, trains = True, False

    def columns(self, x, weight):
        return torch.ops.symm_mem.fused_all_gather_matmul(x, [weight.t()], 0, self.name, return_A=False)[1][0]

    def down(self, x, weight):
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(x, weight.t(), "sum", 0, self.name)

    def ready(self):
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch's fused operators are for GPUs")
        import torch.distributed._symmetric_memory as symmetric
        self.name = dist.group.WORLD.group_name
        symmetric.enable_symm_mem_for_group(self.name)


class Stretto(Way):
    """Products and all-reduces in one operator."""

    def ready(self):
        self.name = st.init().name

    def columns(self, x, weight):
        return st.column_matmul(x, weight, group=self.name)

    def down(self, x, weight):
        return st.matmul_all_reduce(x, weight, group=self.name)


class StrettoRows(Stretto):
    """Gathers and scatters in one operator with their products."""

    is_dealt = True

    def columns(self, x, weight):
        return st.all_gather_matmul(x, weight, group=self.name)

    def down(self, x, weight):
        return st.matmul_reduce_scatter(x, weight, group=self.name)


class StrettoNorm(Stretto):
    """As Stretto, with what is added to each sum, and its norm, in the operator of the product."""

    def down_norm(self, y, weight, x, scale):
        normed, x = st.matmul_all_reduce_add_rms_norm(y, weight, x, scale, EPS, group=self.name)
        return x, normed

    def mlp_norm(self, normed, up, down, x, scale):
        gate, value = self.columns(normed, up).chunk(2, -1)
        return self.down_norm(F.silu(gate) * value, down, x, scale)


class StrettoMlp(Stretto):
    """As Stretto, and each MLP in one plan."""

    def mlp(self, x, up, down):
        half = up.shape[0] // 2
        return st.mlp(x, [up[:half], up[half:]], down, self.name)


class StrettoMlpNorm(StrettoMlp):
    """As StrettoMlp, and what is added to the sum behind attention, and its norm, in the operator of that product."""

    down_norm = StrettoNorm.down_norm


class StrettoMlpRows(StrettoRows):
    """As StrettoRows, and each MLP in one plan."""

    def mlp(self, x, up, down):
        half = up.shape[0] // 2
        return st.mlp(x, [up[:half], up[half:]], down, self.name, sequence_parallel=True)


# Those of PyTorch's first; the others are compared with the best of them.
WAYS = {"plain": Plain, "alone": Alone, "alone-rows": AloneRows, "nccl": Nccl, "nccl-rows": NcclRows,
        "async-tp": AsyncTp, "stretto": Stretto, "stretto-rows": StrettoRows, "stretto-norm": StrettoNorm,
        "stretto-mlp": StrettoMlp, "stretto-mlp-norm": StrettoMlpNorm, "stretto-mlp-rows": StrettoMlpRows}
OURS, FLOORS = "stretto", "alone"
