"""Stretto: AllGather+GEMM, GEMM+ReduceScatter and GEMM+AllReduce with communication hidden behind computation.

A thin binding of libstretto.so (ctypes; nothing is compiled, and no framework is needed). Matrices are
row-major, weights [N, K] as in a PyTorch linear, sizes global; R ranks:

    ag-gemm   a [M/R, K], b [N/R, K] -> out [M, N/R]
    gemm-rs   a [M, K/R], b [N, K/R] -> out [M/R, N]
    gemm-ar   a [M, K/R], b [N, K/R] -> out [M, N] on every rank

Without a GPU: plan(), check(), shape(), version(). On GPUs, one process each: Context, Operation.
ValueError says that what was asked for cannot be, and what would be right; RuntimeError that the system
failed, a wait that did not end in time included.
"""

from ._library import Library, LibraryNotFound, find_library, version
from .operations import Context, Operation
from .plans import Plan, check, plan, shape
from .tensors import GpuTensor

__all__ = ["Context", "GpuTensor", "Library", "LibraryNotFound", "Operation", "Plan", "check",
           "find_library", "plan", "shape", "version"]
