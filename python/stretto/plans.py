"""What plans are: needs no GPU."""

import dataclasses
from ctypes import byref, c_char_p, c_double, c_int64, pointer
from typing import Any, List, Optional, Tuple

from ._library import TENSORS, COperator, CPlanRequest, dtype_text, library, serves, text, whole


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a schedule, or auto, comes to for an operator."""

    schedule: str  # every coordinate; Operation takes it
    reason: str  # why auto took it; empty for a schedule that was named
    predicted_us: float  # one run, as the simulation has it: microseconds, not measured


def c_operator(kind, m, n, k, ranks, dtype):
    number = whole(ranks, "ranks")
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"ranks={number} is too {'large' if number > 0 else 'small'}")
    return COperator(text(kind, "kind"), whole(m, "m"), whole(n, "n"), whole(k, "k"), number,
                     text(dtype_text(dtype), "dtype"))


def c_plan_request(kind, m, n, k, ranks, dtype, schedule, rows, machine):
    op = c_operator(kind, m, n, k, ranks, dtype)
    return CPlanRequest(pointer(op), text(schedule, "schedule"), serves(rows),
                        None if machine is None else text(machine, "machine"))


def plan(kind: str, m: int, n: int, k: int, ranks: int, dtype: Any = "bf16",
         schedule: str = "auto", rows: str = "fixed", machine: Optional[str] = None) -> Plan:
    """The plan of an operator with these global sizes: a Plan.

    kind      "ag-gemm", "gemm-rs" or "gemm-ar"
    schedule  "auto", a preset's name and changes ("tiles,tile=64x128"), or a whole schedule
    rows      "fixed": runs have exactly m rows; "bucket": m or fewer
    machine   a name or a file; None: the one for so many ranks

    Simulates, which takes seconds for large operators. Raises ValueError, RuntimeError.
    """
    request = c_plan_request(kind, m, n, k, ranks, dtype, schedule, rows, machine)
    found, reason, predicted_us = c_char_p(), c_char_p(), c_double()
    library().plan(byref(request), byref(found), byref(reason), byref(predicted_us))
    return Plan(found.value.decode(), reason.value.decode(), predicted_us.value)


def check(kind: str, m: int, n: int, k: int, ranks: int, dtype: Any = "bf16",
          schedule: str = "auto", rows: str = "fixed", machine: Optional[str] = None) -> List[str]:
    """Proves the plan free of races and deadlocks: the list of problems, empty when it is proved.

    Arguments and errors are those of plan().
    """
    request = c_plan_request(kind, m, n, k, ranks, dtype, schedule, rows, machine)
    count, problems = c_int64(), c_char_p()
    library().check(byref(request), byref(count), byref(problems))
    return problems.value.decode().splitlines() if count.value else []


def shape(kind: str, m: int, n: int, k: int, ranks: int, tensor: str, dtype: Any = "bf16",
          rows: str = "fixed") -> Tuple[int, int]:
    """(rows, columns) that tensor "a", "b" or "out" of a rank has room for, the same on all ranks.

    With rows="bucket": in an operation that serves up to m rows. Raises ValueError.
    """
    if tensor not in TENSORS:
        raise ValueError(f'tensor {tensor!r}; it is "a", "b" or "out"')
    op = c_operator(kind, m, n, k, ranks, dtype)
    height, width = c_int64(), c_int64()
    library().shape(byref(op), serves(rows), TENSORS[tensor], byref(height), byref(width))
    return height.value, width.value
