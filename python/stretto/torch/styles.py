"""Plans of torch.distributed.tensor.parallel.parallelize_module, as PyTorch's own styles have them."""

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ParallelStyle

from .modules import ColumnParallelLinear, RowParallelLinear


class _Style(ParallelStyle):
    """Turns an nn.Linear in place into a layer of this package: parallelize_module() keeps its modules.

    Weights are plain tensors, this rank's part, and no DTensors: so are inputs and outputs.
    """

    to: Any

    def __init__(self, *, sequence_parallel: bool = False, dim: int = 0):
        super().__init__()
        self.sequence_parallel, self.dim = sequence_parallel, dim

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, nn.Linear):
            raise ValueError(f"{type(self).__name__} is for nn.Linear, not for {type(module).__name__}")
        made = self.to.from_linear(module, device_mesh, sequence_parallel=self.sequence_parallel,
                                   dim=self.dim)
        module.__class__ = self.to
        module.__dict__.update(made.__dict__)
        return module


class ColwiseParallel(_Style):
    """Each rank its own columns of the result; with sequence_parallel x is gathered by dimension `dim`."""

    to = ColumnParallelLinear


class RowwiseParallel(_Style):
    """Each rank its own columns of x; with sequence_parallel the result is dealt by dimension `dim`."""

    to = RowParallelLinear
