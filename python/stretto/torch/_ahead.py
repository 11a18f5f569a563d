"""What is made ahead of calls: operations of what a group has served, for other numbers of rows."""

from typing import NamedTuple, Sequence

from . import _operations, _rooms
from ._calls import Call

STEP = 64  # rows: buckets of an operation lie no closer (include/stretto/buckets.h)


class Step(NamedTuple):
    """Plans of an operation, or one each for several numbers of rows.

    call       without tensors
    rows       numbers of them
    is_bucket  of an operation that serves any number of rows, or not at all
    """

    call: Call
    rows: Sequence[int]
    is_bucket: bool = False


def _buckets(call, most):
    """A step for each operation that calls of 1 to so many rows take, of all its buckets."""
    steps, first = [], 0
    while not steps or first < most:
        room = _operations.room_of_bucket(first + 1)
        last = min(room, most)
        steps.append(Step(call, [last, *range(first + STEP, last, STEP)], True))
        first = room
    return steps


def _of_experts(call, most, ranks):
    steps, rows = [], 1
    while not steps or rows <= most:
        room = _rooms.room_of(rows, ranks)
        steps.append(Step(call, [room]))
        rows = room + 1
    return steps


def _steps(call, rows, ranks):
    if not isinstance(rows, int):
        return [Step(call, [-(-one // call.multiple) * call.multiple]) for one in rows]
    most = -(-rows // call.multiple) * call.multiple
    if call.graph_name in _operations.SERVING:
        return _buckets(call, most)
    return _of_experts(call, most, call.owners(ranks)) if call.fill else []


def prepare(engine, rows, ranks, progress):
    """Collective. Makes what calls of so many rows need, like those that the engine has served; of a number what those
    of any rows up to it need, as far as a bounded number of operations serves these.
    """
    steps, covered, seen = [], [], set()

    def add(call, rows, like=None):
        call = call.without_tensors(like)
        key = call.graph, call.sizes[1:], call.dtype
        if isinstance(rows, int):
            if key in seen:
                return
            seen.add(key)
            if call.fill or call.parts or call.graph_name in _operations.SERVING:
                covered.append((call, -(-rows // call.multiple) * call.multiple))
            if not call.fill:
                for part in call.parts:
                    add(part, rows, call)
        steps.extend(_steps(call, rows, ranks))

    for call in engine.served():
        add(call, rows)
    done = 0
    while done < len(steps):
        step = steps[done]
        if not engine.ahead(step.call, step.rows, step.is_bucket):
            for part in step.call.parts:
                add(part, rows if isinstance(rows, int) else step.rows, step.call)
        done += 1
        progress(done, len(steps), f"{step.call.op} of {step.rows[0]} rows")
    for call, most in covered:
        engine.cover(call, most)
