"""What Stretto served, and what went to PyTorch's own operators and why."""

import collections
import dataclasses
import threading
from typing import Dict, List, Tuple

import torch

# Begins the reason of what other operators of Stretto's served.
IN_PARTS = "in parts: "
PYTORCHS = "PyTorch's, "
_lock = threading.Lock()
_served: Dict[str, List[int]] = collections.defaultdict(lambda: [0])
_fallbacks: Dict[Tuple[str, str], int] = collections.Counter()
_copies: Dict[Tuple[str, str], List[int]] = collections.defaultdict(lambda: [0, 0])


@dataclasses.dataclass(frozen=True)
class Report:
    """Calls since the process began, or since reset_report().

    served     operator -> calls that Stretto served
    fallbacks  (operator, reason) -> calls that PyTorch's own operators served, or, where the reason begins with
               "in parts: ", several of Stretto's, which stand here for themselves. Layers that plugins leave
               to their framework stand here once for each time that torch.compile compiles them, not for each call
    copies     (operator, tensor of its graph) -> how often it was copied on a GPU, since it began at no multiple of 16
               bytes, and how many bytes that were in all
    """

    served: Dict[str, int]
    fallbacks: Dict[Tuple[str, str], int]
    copies: Dict[Tuple[str, str], Tuple[int, int]] = dataclasses.field(default_factory=dict)

    def __str__(self):
        lines = [f"{count:8} x {op}: served" for op, count in sorted(self.served.items())]
        lines += [f"{count:8} x {op}: {'' if reason.startswith(IN_PARTS) else PYTORCHS}{reason}"
                  for (op, reason), count in sorted(self.fallbacks.items())]
        lines += [f"{count:8} x {op}: copied {name}, which began at no multiple of 16 bytes: {num_bytes} bytes in all"
                  for (op, name), (count, num_bytes) in sorted(self.copies.items())]
        return "\n".join(lines) or "no calls yet"


def report() -> Report:
    """What was served and what was not, by operator and reason; print() shows it."""
    with _lock:
        return Report({op: count for op, (count,) in _served.items() if count}, dict(_fallbacks),
                      {key: (count, num_bytes) for key, (count, num_bytes) in _copies.items()})


def reset_report() -> None:
    with _lock:
        for count in _served.values():  # others hold them
            count[0] = 0
        _fallbacks.clear()
        _copies.clear()


def served(op: str) -> List[int]:
    """The count of an operator's calls that were served, for who counts by itself, without a lock."""
    with _lock:
        return _served[op]


def count_served(op: str) -> None:
    with _lock:
        _served[op][0] += 1


@torch.compiler.assume_constant_result
def count_left(op: str, reason: str) -> None:
    """count_fallback() of what a framework's own code serves: torch.compile does it once, when it compiles that."""
    count_fallback(op, reason)


def count_fallback(op: str, reason: str) -> None:
    with _lock:
        _fallbacks[op, reason] += 1


def count_copy(op: str, name: str, num_bytes: int) -> None:
    with _lock:
        count = _copies[op, name]
        count[0] += 1
        count[1] += num_bytes
