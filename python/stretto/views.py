"""Looks at plans, made here or read from text: what the checker says, when what would run, a page on both."""

import ctypes
import dataclasses
import functools
import json
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t
from typing import Dict, List, Mapping, Optional, Sequence, Union

from ._library import library, text
from .plans import Plan

# As include/stretto/c_views.h has them; each returns a status.
FUNCTIONS = {
    "stretto_text_read": [c_char_p, c_char_p, POINTER(c_char_p)],
    "stretto_text_check": [c_char_p, POINTER(c_char_p)],
    "stretto_text_simulate": [c_char_p, c_char_p, POINTER(c_char_p)],
    "stretto_text_report": [POINTER(c_char_p), POINTER(c_char_p), c_size_t, c_char_p, POINTER(c_char_p)],
}


@functools.lru_cache(maxsize=None)
def _functions():
    found = {}
    for name, arguments in FUNCTIONS.items():
        function = getattr(ctypes.CDLL(library().path), name)
        function.argtypes, function.restype = arguments, c_int
        found[name] = functools.partial(library()._call, function)
    return found


def _text_of(plan):
    """A plan's text, for C."""
    if isinstance(plan, (Plan, PlanText)):
        plan = plan.text() if isinstance(plan, Plan) else plan.text
    return text(plan, "plan")


def _said(name, *arguments):
    found = c_char_p()
    _functions()[name](*arguments, byref(found))
    return found.value


@dataclasses.dataclass(frozen=True)
class PlanText:
    """A plan that was read from text, and what it has."""

    text: str = dataclasses.field(repr=False)
    operator: str
    schedule: str
    ranks: int
    lanes: int
    instructions: int
    tasks: int
    waits: int
    notifies: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the checker has found: kind, message, a hint, and lines of the text (None where there is none)."""

    kind: str
    message: str
    hint: str
    line: Optional[int]
    other_line: Optional[int]


@dataclasses.dataclass(frozen=True)
class Simulation:
    """When a machine would do what, predicted: all times in microseconds, of one run by itself.

    total_us          until the last rank is done
    gemm_us           the GEMM of the slowest rank alone, on all SMs
    exposed_us        total_us - gemm_us: communication that nothing hides
    floor_us          what no schedule can beat; efficiency is its share of total_us
    lanes, spans, links   columns of equal length, as lists by name: pandas.DataFrame(simulation.spans) is a table.
                      A span's lane is an index of the lanes', `line` one of the plan's text
    critical_path     last first: lane, position, line, start_us, end_us, why
    """

    total_us: float
    gemm_us: float
    communication_us: float
    exposed_us: float
    floor_us: float
    efficiency: float
    lanes: Dict[str, List] = dataclasses.field(repr=False)
    spans: Dict[str, List] = dataclasses.field(repr=False)
    links: Dict[str, List] = dataclasses.field(repr=False)
    critical_path: List[Dict] = dataclasses.field(repr=False)

    def busy(self, rank: int = 0, columns: int = 400) -> Dict[str, List[float]]:
        """By kind of row, the share of its lanes at work in each of so many equal parts of the run: 0 to 1.

        "compute" is tiles; what else compute lanes do is "other"; "link" and "network" are the rank's ports.
        """
        width, rows = self.total_us / columns, {}

        def add(name, start, end, lanes):
            row = rows.setdefault(name, [0.0] * columns)
            column = int(start / width)
            while column < columns and column * width < end:
                part = min(end, (column + 1) * width) - max(start, column * width)
                row[column] = min(1.0, row[column] + max(0.0, part) / width / lanes)
                column += 1
        kinds = [kind for kind, of in zip(self.lanes["kind"], self.lanes["rank"]) if of == rank]
        for lane, op, start, end in zip(*(self.spans[name] for name in ("lane", "op", "start_us", "end_us"))):
            if self.lanes["rank"][lane] != rank or op in ("wait", "boundary"):
                continue
            kind = self.lanes["kind"][lane]
            add("other" if kind == "compute" and op != "gemm" else kind, start, end, kinds.count(kind))
        for of, network, start, end in zip(*(self.links[name] for name in ("rank", "network", "start_us", "end_us"))):
            if of == rank:
                add("network" if network else "link", start, end, 1)
        return rows

    def plot(self, axes=None, rank: int = 0):
        """Draws a rank's rows by matplotlib, into `axes` or new ones, which are returned."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise RuntimeError("plot() needs matplotlib: pip install matplotlib; "
                               "report() draws without") from None
        if axes is None:
            axes = pyplot.subplots(figsize=(9, 2.6))[1]
        rows = self.busy(rank)
        names = [name for name in ("compute", "other", "comm", "copy", "nccl", "link", "network") if name in rows]
        colours = {"compute": "#3b7dd8", "other": "#d98a1f", "comm": "#14966f", "copy": "#14966f",
                   "nccl": "#a4569b", "link": "#5aa9c9", "network": "#7a6fd0"}
        for place, name in enumerate(names):
            bottom, row = len(names) - 1 - place, rows[name]
            times = [self.total_us * i / len(row) for i in range(len(row))]
            axes.fill_between(times, bottom, [bottom + 0.85 * share for share in row], step="post",
                              color=colours[name], linewidth=0)
        axes.set_yticks([len(names) - 0.6 - i for i in range(len(names))], names)
        axes.set_xlim(0, self.total_us)
        axes.set_ylim(0, len(names))
        axes.set_xlabel("microseconds")
        return axes


AnyPlan = Union[Plan, PlanText, str]


def read_plan(plan: str, name: str = "plan") -> PlanText:
    """Reads a plan's text, of Plan.text(), `stretto plan` or by hand; ValueError names line and column."""
    return PlanText(plan, **json.loads(_said("stretto_text_read", text(plan, "plan"), text(name, "name"))))


def check_plan(plan: AnyPlan) -> List[Problem]:
    """Proves a plan free of races and deadlocks: the problems, with their lines; none when it is proved."""
    found = json.loads(_said("stretto_text_check", _text_of(plan)))
    return [Problem(**one) for one in found["problems"]]


def simulate(plan: AnyPlan, machine: Optional[str] = None) -> Simulation:
    """Predicts the timeline of a plan on a machine (a name or a file; None: the one for so many ranks).

    Raises ValueError for a plan that never ends, or that is for more ranks than the machine has.
    """
    on = None if machine is None else text(machine, "machine")
    return Simulation(**json.loads(_said("stretto_text_simulate", _text_of(plan), on)))


def report(plans: Union[AnyPlan, Sequence[AnyPlan], Mapping[str, AnyPlan]], machine: Optional[str] = None) -> str:
    """A page in HTML on plans of one operator, by their names in a mapping: what `stretto report` writes."""
    if isinstance(plans, (Plan, PlanText, str)):
        plans = [plans]
    if not isinstance(plans, Mapping):
        plans = {f"plan {i}": plan for i, plan in enumerate(plans)} if len(plans) > 1 else dict(zip(["plan"], plans))
    names = [text(name, "name") for name in plans]
    texts = [_text_of(plan) for plan in plans.values()]
    on = None if machine is None else text(machine, "machine")
    array = c_char_p * len(names)
    return _said("stretto_text_report", array(*names), array(*texts), len(names), on).decode()
