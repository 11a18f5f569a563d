"""What Stretto served, and what went to PyTorch's own operators and why."""

import collections
import dataclasses
import threading
from typing import Dict, Tuple

_lock = threading.Lock()
_served = collections.Counter()
_fallbacks = collections.Counter()


@dataclasses.dataclass(frozen=True)
class Report:
    """Calls since the process began, or since reset_report().

    served     operator -> calls that Stretto served
    fallbacks  (operator, reason) -> calls that PyTorch's own operators served
    """

    served: Dict[str, int]
    fallbacks: Dict[Tuple[str, str], int]

    def __str__(self):
        lines = [f"{count:8} x {op}: served" for op, count in sorted(self.served.items())]
        lines += [f"{count:8} x {op}: PyTorch's, {reason}"
                  for (op, reason), count in sorted(self.fallbacks.items())]
        return "\n".join(lines) or "no calls yet"


def report() -> Report:
    """What was served and what was not, by operator and reason; print() shows it."""
    with _lock:
        return Report(dict(_served), dict(_fallbacks))


def reset_report() -> None:
    with _lock:
        _served.clear()
        _fallbacks.clear()


def count_served(op: str) -> None:
    with _lock:
        _served[op] += 1


def count_fallback(op: str, reason: str) -> None:
    with _lock:
        _fallbacks[op, reason] += 1
