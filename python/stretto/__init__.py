"""Stretto: distributed operators of LLMs with communication hidden behind computation.

A thin binding of libstretto.so (ctypes; nothing is compiled, and no framework is needed). An operator is a graph:
one that Stretto ships ("ag-gemm", "gemm-rs", "mlp", "layer", ...) or your own. Matrices are row-major, weights
[N, K] as in a PyTorch linear, sizes global.

Without a GPU: plan(), check(), tensors(), emulate(), version(); of plans and their texts read_plan(),
check_plan(), simulate(), report(). On GPUs, one process each: Context, Operation.
ValueError says that what was asked for cannot be, and what would be right; RuntimeError that the system
failed, a wait that did not end in time included.
"""

from ._library import Library, LibraryNotFound, find_library, version
from .contexts import Context
from .operations import Operation
from .operators import TensorInfo, tensors
from .plans import Plan, check, emulate, plan
from .tensors import SharedTensor
from .views import (PlanText, Problem, Simulation, check_plan, read_plan, report, simulate)

__all__ = ["Context", "Library", "LibraryNotFound", "Operation", "Plan", "SharedTensor", "TensorInfo", "check",
           "emulate", "find_library", "plan", "tensors", "version",
           "PlanText", "Problem", "Simulation", "check_plan", "read_plan", "report", "simulate"]
