"""What tests of stretto.torch share: inputs of every rank, what should come of them, and PyTorch itself."""

import importlib.util
import os
import sys
import unittest


def provide_torch():
    """Goes on in the interpreter that has PyTorch, where this one has none; else skips the tests."""
    if importlib.util.find_spec("torch") is not None:
        return
    others = dict(os.environ)
    other = others.pop("STRETTO_TORCH_PYTHON", None)
    if other:
        sys.stdout.flush()
        os.execve(other, [other, "-m", "unittest", *sys.argv[1:]], others)
    raise unittest.SkipTest("no PyTorch: STRETTO_TORCH=1 ./dev test takes it from PyPI, and "
                            "STRETTO_TORCH_PYTHON names an interpreter that has it")


provide_torch()

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import stretto.torch as st  # noqa: E402

# Relative to the largest element: one rounding of partial sums and one of the result.
CLOSE = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 1e-5, torch.float64: 1e-12}


def normal(seed, *shape, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def block(total, ranks, rank):
    """Which of so many rows are dealt to a rank."""
    size = -(-total // ranks)
    return slice(min(rank * size, total), min((rank + 1) * size, total))


def run(ranks, function, fallback=False, **options):
    """function(group) on threads; what Stretto does not serve fails."""
    st.reset_report()
    return st.run_threads(function, ranks, fallback=fallback, timeout_s=60, **options)


class Numbers(unittest.TestCase):
    def assert_close(self, got, right, dtype=None):
        self.assertEqual(tuple(got.shape), tuple(right.shape))
        if got.numel() == 0:
            return
        error = (got.double() - right.double()).abs().max().item()
        most = CLOSE[dtype or got.dtype] * max(1.0, right.double().abs().max().item())
        self.assertLessEqual(error, most)


class Copies(TorchDispatchMode):
    """What PyTorch copies in the block, of so many elements or more: in `found`, by the name of the operator. What an
    operator of Stretto's does inside is seen where its kernel is called without the dispatcher.
    """

    NAMES = ("cat", "clone", "copy_", "_to_copy", "stack", "_reshape_copy")

    def __init__(self, least):
        super().__init__()
        self.least, self.found = least, []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        made = function(*arguments, **(named or {}))
        name = function.overloadpacket.__name__
        if name in self.NAMES and made.numel() >= self.least:
            self.found.append(name)
        return made
