"""What servers make before they serve, and measure while they are idle."""

import operator
import time
from typing import Callable, Iterable, Optional, Union

from stretto._library import learning_budget

from . import _ahead
from .groups import GroupLike, find, group_name


def _numbers(rows):
    """A number of rows, or several. Raises ValueError."""
    try:
        numbers = operator.index(rows) if hasattr(rows, "__index__") else [operator.index(one) for one in rows]
    except TypeError:
        numbers = 0
    if not numbers or min([numbers] if isinstance(numbers, int) else numbers) < 1:
        raise ValueError(f"prepare: rows is {rows!r}; a number of rows from 1 on was expected, or several")
    return numbers if isinstance(numbers, int) else sorted(set(numbers))


def prepare(rows: Union[int, Iterable[int]], group: GroupLike = None, *,
            progress: Optional[Callable[[int, int, str], None]] = None) -> int:
    """Makes what later calls need, so that these make nothing: plans, kernels, and what is to be measured for them. It
    is made for what the group has served on GPUs so far, operators, sizes of weights and types, in other numbers of
    rows: call the model once before.

    rows      of all ranks together, all leading dimensions counted. Several numbers: for calls of exactly so many. One
              number: for calls of any rows up to it; from then on MLPs and norms without a plan for exactly a call's
              rows go in parts, and experts take plans for more, so give first what shall have plans of its own.
              All-to-alls and look-ups, whose rows are bags, need several; those of run_graph() are left out
    progress  called with (steps done, steps that are known of, what was made) after each step, which takes
              milliseconds, or seconds where a kernel is compiled

    Returns how many operations were made; those that were there may have more plans. On CPUs there is nothing to make.
    Collective, between calls; raises ValueError, also where ranks differ in rows or in what they have called, and
    RuntimeError.
    """
    numbers, group = _numbers(rows), find(group_name(group))
    engines = list(group.engines.values())
    if any(engine.is_captured() for engine in engines):
        raise ValueError("prepare: no CUDA graph can hold it: call it before the capture")
    group.meeting.agree("prepare", {"rows": numbers, "what ranks have called": [
        [call.graph_name, *call.sizes[1:]] for engine in engines for call in engine.served()]})
    before = sum(engine.num_operations() for engine in engines)
    for engine in engines:
        _ahead.prepare(engine, numbers, group.ranks, progress or (lambda *_: None))
    return sum(engine.num_operations() for engine in engines) - before


def learn(budget_ms: float, group: GroupLike = None) -> int:
    """For a server that is idle: measures schedules of plans that the group has on GPUs and that "auto" is not sure of,
    each once, and takes the fastest from the next call on. What is found is kept for later processes.

    budget_ms  of all time that it takes, 0 to 3600000; no other plan is begun after it. 0 measures nothing

    Returns how many plans another call would measure. CUDA graphs go on with the plans that they hold: capture them
    again to have better ones. On CPUs there is nothing to measure. Collective, between calls; waits for all of them.
    Raises ValueError, also where ranks differ in budgets or are capturing, and RuntimeError as finish() does.
    """
    budget_ms, group = learning_budget(budget_ms), find(group_name(group))
    engines = list(group.engines.values())
    if any(engine.is_captured() for engine in engines):
        raise ValueError("learn: no CUDA graph can hold it: call it outside the capture")
    group.meeting.agree("learn", {"budget_ms": budget_ms, "plans": [engine.num_operations() for engine in engines]})
    end = time.monotonic() + budget_ms / 1e3
    return sum(engine.learn(lambda: max(0.0, 1e3 * (end - time.monotonic()))) for engine in engines)
