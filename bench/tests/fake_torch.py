"""As much of PyTorch as torch_baselines.py asks of one rank, for tests: nothing is computed, every graph takes 1250 us."""

import sys
import types
from unittest import mock


class Tensor:
    def __init__(self, *shape, values=None):
        self.shape, self.values = shape, values
        self.dtype = "torch.bfloat16"
        self.device = types.SimpleNamespace(type="cuda", index=0)

    def stride(self):
        return self.shape[1], 1

    def data_ptr(self):
        return 1 << 20

    def tolist(self):
        return self.values

    def same(self, *_):
        return self

    t = float = fill_ = normal_ = __matmul__ = __getitem__ = same


class Store(dict):
    def set(self, key, value):
        self[key] = value

    def get(self, key):
        return self[key]

    def set_timeout(self, _):
        pass


def install():
    """Puts it in the place of torch; returns it. Once: modules keep what they have imported first."""
    if isinstance(sys.modules.get("torch"), mock.MagicMock):
        return sys.modules["torch"]
    torch = mock.MagicMock(name="torch", __version__="2.0")
    parts = {"torch": torch, "torch.distributed": torch.distributed,
             "torch.distributed._symmetric_memory": torch.distributed._symmetric_memory,
             "torch.distributed.rendezvous": torch.distributed.rendezvous}
    sys.modules.update(parts)
    torch.cuda.get_device_name.return_value = "fake"
    torch.cuda.Event.return_value.query.return_value = True
    torch.cuda.Event.return_value.elapsed_time.return_value = 1.25
    torch.cuda.current_stream.return_value.cuda_stream = 7
    make = lambda *shape, **_: Tensor(*shape)  # noqa: E731
    torch.randn.side_effect = torch.empty.side_effect = make
    torch.distributed._symmetric_memory.empty.side_effect = make
    torch.empty_like.side_effect = lambda tensor: Tensor(*tensor.shape)
    torch.from_dlpack.side_effect = lambda lent: Tensor(*lent.shape)
    torch.tensor.side_effect = lambda values, **_: Tensor(len(values), values=values)
    operators = torch.ops.symm_mem
    operators.fused_all_gather_matmul.return_value = (None, [Tensor(1, 1)])
    operators.fused_matmul_reduce_scatter.return_value = Tensor(1, 1)
    operators.two_shot_all_reduce_.return_value = Tensor(1, 1)
    distributed = torch.distributed
    distributed.get_world_size.return_value, distributed.get_rank.return_value = 1, 0
    distributed.PrefixStore.side_effect = lambda _, store: store
    distributed.rendezvous.rendezvous.side_effect = lambda _: iter([(Store(), 0, 1)])
    return torch
