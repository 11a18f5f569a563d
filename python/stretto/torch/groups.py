"""Groups: the ranks that share an operator, made of what torch.distributed knows."""

import dataclasses
import os
import re
import threading
from typing import Any, Dict, Optional, Set, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import stretto

from .._library import budget, num_bytes, num_sms
from ._meeting import Meeting

DEFAULT_TIMEOUT_S = 30.0


@dataclasses.dataclass
class Options:
    timeout_s: float = DEFAULT_TIMEOUT_S
    schedule: str = "auto"
    fallback: bool = True
    compare: bool = False
    measure_ms: Optional[float] = None
    workspace_bytes: int = 0
    workspace_grows: bool = True
    free_sms: int = 0
    orders_streams: bool = False


class Group:
    """One rank's view of a group. init() makes it, or the first operator that names its group.

    name          what operators take as group_name; of a ProcessGroup its own name
    rank, ranks   this rank's number in the group, and how many there are
    """

    def __init__(self, name: str, rank: int, ranks: int, store: Any, options: Options,
                 process_group: Optional[dist.ProcessGroup] = None):
        self.name, self.rank, self.ranks, self.options = name, rank, ranks, options
        self.process_group = process_group
        self.seat = _seat(name, rank, ranks)  # what operators are told of it: see seat()
        self.store = store
        self.meeting = Meeting(store, rank, ranks, options.timeout_s)
        self.engines: Dict[str, Any] = {}  # device type -> what _engine.py has for this group
        self.agreed: Set[Any] = set()  # calls on GPUs that ranks have compared
        self._process = os.getpid()

    def require_usable(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this process was forked from the one that made group {self.name!r}: a fork has no "
                "ranks of its own; start processes by torchrun or with the start method 'spawn'")

    def finish(self) -> None:
        """Collective. Waits for all calls; raises RuntimeError that names a wait which did not end in time.

        The results of the calls since the last finish() are then of no use, and the group is of use again. On
        CPUs calls have ended when they return. Synchronise streams on which CUDA graphs were launched before.
        """
        for engine in self.engines.values():
            engine.finish()

    def error(self) -> str:
        """What went wrong so far, as far as this process knows: a rank that was late, a wait that did not end in time;
        empty: nothing. Not collective, and waits for no call, so that a server may ask at any time.

        What it says stays until finish(). On CPUs it is empty: calls raise what goes wrong.
        """
        return "; ".join(dict.fromkeys(what for engine in list(self.engines.values()) for what in engine.errors()))

    @property
    def workspace_bytes(self) -> int:
        """Of this GPU, what lies between ranks for all calls so far. On CPUs 0."""
        return sum(engine.workspace_bytes for engine in self.engines.values())

    def close(self) -> None:
        """Collective. Frees what the group has; its name may be given to init() again."""
        _forget(self)
        for engine in self.engines.values():
            engine.close()
        self.engines = {}

    def __repr__(self):
        return f"Group({self.name!r}, rank={self.rank}, ranks={self.ranks})"


def options_of(timeout_s: float, schedule: str, fallback: bool, compare: bool,
               measure_ms: Optional[float] = None, workspace_bytes: int = 0, workspace_grows: bool = True,
               free_sms: int = 0, orders_streams: bool = False) -> Options:
    """Raises ValueError. Whether a schedule can serve an operator is seen at its call; whether it is one, here."""
    if not isinstance(timeout_s, (int, float)) or not 0 < timeout_s <= 3600:
        raise ValueError(f"timeout_s is {timeout_s!r}; seconds above 0, at most 3600, were expected")
    budget(measure_ms)  # raises what is wrong with it
    size, free = num_bytes(workspace_bytes, "workspace_bytes"), num_sms(free_sms, "free_sms")
    if not isinstance(schedule, str):
        raise ValueError(f"schedule is {schedule!r}; a text as 'auto' or 'tiles' was expected")
    if schedule not in ("auto", "tiles"):
        try:
            stretto.plan("gemm-rs", m=64, n=64, k=64, ranks=2, schedule=schedule)
        except ValueError as error:
            # It may be one for other operators.
            if not f"{error}".startswith(("this schedule cannot serve", "unknown segment")):
                raise
    return Options(float(timeout_s), schedule, bool(fallback), bool(compare), measure_ms, size, bool(workspace_grows),
                   free, bool(orders_streams))


GroupLike = Any  # None, a name, a Group, a ProcessGroup or a DeviceMesh of one dimension
_groups: Dict[str, Group] = {}  # by name
_seats: Dict[str, Group] = {}  # by name and by seat
_generations: Dict[str, int] = {}
_lock = threading.RLock()


def group_name(group: GroupLike = None) -> str:
    """The name by which operators know a group: a ProcessGroup, a DeviceMesh of one dimension, a Group, a
    name; None is the whole world. Raises ValueError."""
    if isinstance(group, str):
        return group
    if isinstance(group, Group):
        return group.name
    if hasattr(group, "mesh_dim_names"):
        if group.ndim != 1:
            dims = ", ".join(group.mesh_dim_names or ()) or "without names"
            raise ValueError(f"a mesh of {group.ndim} dimensions ({dims}) is no group: give one of "
                             'them, as mesh["tp"]')
        group = group.get_group()
    if group is None:
        if not dist.is_initialized():
            raise ValueError("no group is given, and torch.distributed has none: call "
                             "torch.distributed.init_process_group() first, or use "
                             "stretto.torch.run_threads()")
        group = dist.group.WORLD
    if group is dist.GroupMember.NON_GROUP_MEMBER:  # what new_group() gives the others
        raise ValueError(f"rank {dist.get_rank()} of the world is not in this group: leave the call to those that are")
    if not isinstance(group, dist.ProcessGroup):
        raise ValueError(f"group is {group!r}; a ProcessGroup, a DeviceMesh of one dimension, a "
                         "name or None was expected")
    return group.group_name


def init(group: GroupLike = None, *, timeout_s: float = DEFAULT_TIMEOUT_S, schedule: str = "auto",
         fallback: bool = True, compare: bool = False, measure_ms: Optional[float] = None,
         workspace_bytes: int = 0, workspace_grows: bool = True, free_sms: int = 0,
         orders_streams: bool = False) -> Group:
    """Makes a group known, with options. Collective over the group.

    group      a ProcessGroup, a DeviceMesh of one dimension, a name; None: the whole world
    timeout_s  seconds after which a rank that does not come to a call is named in an error
    schedule   "auto", the name of a preset or a system and changes, or a whole schedule
    fallback   False: what Stretto does not serve raises ValueError, and is not given to PyTorch
    compare    True: ranks compare every call on GPUs, too, and name those that differ, instead of the first of its
               kind only. To find what ranks do differently: each call then waits for all of them
    measure_ms on GPUs, as Operation has it: how long the first call of a shape may time schedules where "auto" is not
               sure; 0: never; None: as STRETTO_MEASURE_MS says
    workspace_bytes, workspace_grows
               on GPUs, as Context has them: one workspace for all calls, of so many bytes at first, that takes more
               where a call needs more. False: what needs more is PyTorch's; with 0 each operation has its own
    free_sms   on GPUs, as Context has it: SMs that calls leave to NCCL's kernels of other groups that run beside them
    orders_streams
               on GPUs, as Context has it: calls on several streams, of all groups that are made so, wait for each other
               by themselves

    Groups that are never given to init() are made with these defaults at their first call. Raises
    ValueError, and RuntimeError that names the ranks which do not come.
    """
    options = options_of(timeout_s, schedule, fallback, compare, measure_ms, workspace_bytes, workspace_grows,
                         free_sms, orders_streams)
    name = group_name(group)
    with _lock:
        known = _known(name)
        if known is not None:
            if known.options != options:
                raise ValueError(f"group {name!r} is there with other options ({known.options}): "
                                 "close() it before init()")
            return known
        return _open(name, options)


# What seat() gives, and operators take: a group's name, or its name with this rank's place in it.
_SEAT = re.compile(r"(.*) \(rank (\d+) of (\d+)\)", re.DOTALL)


def _seat(name, rank, ranks):
    return f"{name} (rank {rank} of {ranks})"


@torch.compiler.assume_constant_result
def _seated(name):
    group = _known(name)
    return group.seat if group is not None else _seat(name, *place(name))


def seat(group: GroupLike = None) -> str:
    """A group's name with this rank's place in it. Shapes depend on both, so that a graph which torch.compile
    keeps on disk is to be found by nobody else.
    """
    return _seated(group_name(group))


def find(name: str) -> Group:
    """The group of this name or seat; one of torch.distributed's is made where it is not there yet.

    Raises ValueError where the group has other ranks than the seat says.
    """
    group = _seats.get(name)
    if group is None or not _is_live(group):
        group = _find(name)
    group.require_usable()
    return group


def _find(name):
    said = _SEAT.fullmatch(name)
    plain = said[1] if said else name
    with _lock:
        group = _known(plain) or _open(plain, Options())
    if name not in (plain, group.seat):
        raise ValueError(f"this was compiled for {name}, and is called in {group.seat}: torch.compiler.reset() "
                         "forgets it")
    return group


def place(name: str) -> Tuple[int, int]:
    """This rank's number in a group of this name or seat, and how many there are; the group is not made."""
    said = _SEAT.fullmatch(name)
    if said:
        return int(said[2]), int(said[3])
    group = _known(name) or _process_group(name)
    return (group.rank, group.ranks) if isinstance(group, Group) else (group.rank(), group.size())


@torch.compiler.assume_constant_result
def ranks_of(name: str) -> int:
    return place(name)[1]


@torch.compiler.assume_constant_result
def rank_of(name: str) -> int:
    return place(name)[0]


def register(group: Group) -> Group:
    _groups[group.name] = _seats[group.name] = _seats[group.seat] = group
    return group


def _forget(group):
    if _groups.get(group.name) is group:
        for one in (_groups, _seats):
            one.pop(group.name, None)
            one.pop(group.seat, None)


def _is_live(group):
    """Whether a group's ProcessGroup is what it was: destroy_process_group() frees names for others."""
    if group.process_group is None:
        return True
    try:
        return c10d._resolve_process_group(group.name) is group.process_group
    except Exception:
        return False


def _known(name):
    group = _groups.get(name)
    if group is not None and not _is_live(group):
        _forget(group)
        return None
    return group


def _process_group(name):
    try:
        return c10d._resolve_process_group(name)
    except Exception:
        raise ValueError(f"no group is called {name!r}: give the group_name of a ProcessGroup of "
                         "this process") from None


def _open(name, options):
    process_group = _process_group(name)
    generation = _generations.get(name, 0) + 1
    store = dist.PrefixStore(f"stretto/{name}/{generation}", c10d._get_process_group_store(process_group))
    group = Group(name, process_group.rank(), process_group.size(), store, options, process_group)
    try:
        group.meeting.agree(f"init of group {name!r}", dataclasses.asdict(options))
    except ValueError:  # on all ranks: what was said here is done with
        _generations[name] = generation
        raise
    _generations[name] = generation
    return register(group)
