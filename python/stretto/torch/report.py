"""What Stretto served, and what went to PyTorch's own operators and why."""

import collections
import dataclasses
import threading
import weakref
from typing import Dict, List, Mapping, Sequence, Tuple, Union

import torch

# Begins the reason of what other operators of Stretto's served.
IN_PARTS = "in parts: "
PYTORCHS = "PyTorch's, "
# Why tensors are copied for a call.
UNALIGNED = "which began at no multiple of 16 bytes"
UNEVEN = "filled up with zeros, since ranks do not divide its columns"
UNEVEN_ROWS = "filled up with zeros, since ranks do not divide its rows"
UNLIKE = "filled up, since ranks have different numbers of rows"
APART = "joined, since its parts did not lie below one another"
GAPS = "a view with gaps, or not row by row"
FAR = "which lay 2^40 bytes or more from what it gates, or gates it: allocate both as one tensor"
REORDERED = "of which another dimension than the first is dealt"
Given = Union[torch.Tensor, Sequence[torch.Tensor]]
_lock = threading.Lock()
_served: Dict[str, List[int]] = collections.defaultdict(lambda: [0])
_fallbacks: Dict[Tuple[str, str], int] = collections.Counter()
_copies: Dict[Tuple[str, str, str], List[int]] = collections.defaultdict(lambda: [0, 0])
_bad_ids: Dict[str, int] = collections.Counter()
_counters = weakref.WeakSet()  # what counts on GPUs: bad_ids() says operator -> count, since it began
_counted_before: Dict[str, int] = {}  # by those, at the last reset_report()


@dataclasses.dataclass(frozen=True)
class Report:
    """Calls since the process began, or since reset_report().

    served     operator -> calls that Stretto served
    fallbacks  (operator, reason) -> calls that PyTorch's own operators served, or, where the reason begins with
               "in parts: ", several of Stretto's, which stand here for themselves. Layers that plugins leave
               to their framework stand here once for each time that torch.compile compiles them, not for each call
    copies     (operator, tensor of its graph, why) -> how often it was copied for a call that Stretto served, on CPUs
               as on GPUs, and how many bytes that were in all
    bad_ids    operator -> ids of its calls, of all ranks, that named no expert and were not -1: nothing was chosen
               there. Of look-ups, indices that were no row of their table; on a GPU in this rank's tables
    """

    served: Dict[str, int]
    fallbacks: Dict[Tuple[str, str], int]
    copies: Dict[Tuple[str, str, str], Tuple[int, int]] = dataclasses.field(default_factory=dict)
    bad_ids: Dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self):
        lines = [f"{count:8} x {op}: served" for op, count in sorted(self.served.items())]
        lines += [f"{count:8} x {op}: {'' if reason.startswith(IN_PARTS) else PYTORCHS}{reason}"
                  for (op, reason), count in sorted(self.fallbacks.items())]
        lines += [f"{count:8} x {op}: copied {name}, {why}: {num_bytes} bytes in all"
                  for (op, name, why), (count, num_bytes) in sorted(self.copies.items())]
        lines += [f"{count:8} ids of {op} named nothing that there is, and count as -1"
                  for op, count in sorted(self.bad_ids.items())]
        return "\n".join(lines) or "no calls yet"


def report() -> Report:
    """What was served and what was not, by operator and reason; print() shows it.

    What GPUs have counted of bad ids is that of calls which have ended; inside a capture, what was known before it.
    """
    on_gpus = _counted()
    with _lock:
        bad = {op: _bad_ids[op] + on_gpus[op] - _counted_before.get(op, 0) for op in {*_bad_ids, *on_gpus}}
        return Report({op: count for op, (count,) in _served.items() if count}, dict(_fallbacks),
                      {key: (count, num_bytes) for key, (count, num_bytes) in _copies.items()},
                      {op: count for op, count in bad.items() if count > 0})


def reset_report() -> None:
    global _counted_before
    on_gpus = _counted()
    with _lock:
        _counted_before = on_gpus
        _bad_ids.clear()
        for count in _served.values():  # others hold them
            count[0] = 0
        _fallbacks.clear()
        _copies.clear()


def _counted() -> Dict[str, int]:
    all_of_them = collections.Counter()
    for counter in list(_counters):
        all_of_them.update(counter.bad_ids())
    return all_of_them


def ask_for_bad_ids(counter) -> None:
    """From now on what `counter.bad_ids()` says stands in reports, until it is freed."""
    _counters.add(counter)


def count_bad_ids(op: str, count: int) -> None:
    with _lock:
        _bad_ids[op] += count


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


def count_copies(op: str, given: Mapping[str, Given], taken: Mapping[str, torch.Tensor]) -> None:
    """Of tensors, or lists of them that are one for the call, those that are not taken where they lie."""
    for name, one in given.items():
        is_list, own = not isinstance(one, torch.Tensor), taken[name]
        first = one[0] if is_list else one
        if own.data_ptr() != first.data_ptr():
            why = APART if is_list and len(one) > 1 else _why(first, own)
            count_copy(op, name, why, own.numel() * own.element_size())


def _why(given, own):
    if given.dtype is not own.dtype:
        return f"cast from {str(given.dtype).replace('torch.', '')}"
    if own.numel() > given.numel():
        return UNEVEN_ROWS
    return REORDERED if given.is_contiguous() else GAPS


def count_copy(op: str, name: str, why: str, num_bytes: int) -> None:
    with _lock:
        count = _copies[op, name, why]
        count[0] += 1
        count[1] += num_bytes
