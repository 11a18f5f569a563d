"""How the ranks of a group meet on the host: through a store of torch.distributed, and never for ever."""

import contextlib
import json
import threading
import time
from typing import Any, Dict, List

import torch.distributed as dist

from ._wanted import FIELD

# What a TCPStore takes at once is 8 MiB.
PIECE = 4 << 20
LONGEST_NAP_S = 0.01


# What stores say whose process is no more.
_GONE = tuple(one for one in (getattr(dist, "DistNetworkError", None),) if one)


class _Store:
    """A store that says who is missing where it does not answer."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        function = getattr(self._store, name)

        def ask(*given):
            try:
                return function(*given)
            except _GONE as error:
                raise RuntimeError("the store by which ranks meet does not answer: the process that has it, mostly "
                                   "that of rank 0, has ended") from error
        return ask


def spoken(ranks):
    """"rank 2", "ranks 0, 1 and 3"."""
    words = [str(rank) for rank in ranks]
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def differences(stories: List[Dict[str, Any]]) -> List[str]:
    """What ranks say differently, each "k is 64 on ranks 0, 1 and 3, 128 on rank 2"."""
    found = []
    for field in {name: None for story in stories for name in story}:
        if field == FIELD and not all(field in story for story in stories):
            continue  # a rank's code is compiled, or has no gradients
        said: Dict[str, List[int]] = {}
        for rank, story in enumerate(stories):
            said.setdefault(json.dumps(story.get(field)), []).append(rank)
        if len(said) > 1:
            most_first = sorted(said.items(), key=lambda one: -len(one[1]))
            told = [f"{json.loads(value)} on {spoken(ranks)}" for value, ranks in most_first]
            found.append(f"{field} is " + ", ".join(told))
    return found


class Meeting:
    """One rank's seat. All ranks make the same calls in the same order.

    store      what holds the words that ranks leave for each other
    timeout_s  seconds after which a rank that does not come is named in a RuntimeError
    """

    def __init__(self, store, rank: int, ranks: int, timeout_s: float):
        self.rank, self.ranks, self.timeout_s = rank, ranks, timeout_s
        self._store = _Store(store)
        self._number = 0
        self._mine: List[str] = []  # this rank's keys in this meeting
        self._old: List[str] = []  # and in the one before
        self._turn = threading.RLock()

    @contextlib.contextmanager
    def turn(self, doing: str):
        """Of the thread that makes a call. Raises RuntimeError where another one has it: whose call came first ranks
        could see differently.
        """
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(f"another thread of rank {self.rank} is in a call of this group at {doing}: calls of a "
                               "group come from one thread at a time, or in groups of their own")
        try:
            yield
        finally:
            self._turn.release()

    def begin(self):
        """A new meeting. Who speaks here has left the last one, so what was said before that is forgotten."""
        self._number += 1
        for key in self._old:
            self._store.delete_key(key)
        self._old, self._mine = self._mine, []

    def say(self, what: str, value: bytes) -> None:
        pieces = [value[at:at + PIECE] for at in range(0, len(value), PIECE)] or [b""]
        for index, piece in enumerate(pieces[1:], 1):
            self._set(f"{self.rank}/{what}/{index}", piece)
        # Last, since who sees it reads the others.
        self._set(f"{self.rank}/{what}", b"%d " % len(pieces) + pieces[0])

    def hear(self, rank: int, what: str, doing: str, patience_s: float = 0.0) -> bytes:
        self._await([rank], what, doing, max(patience_s, self.timeout_s))
        head = bytes(self._store.get(self._key(rank, what)))
        count, _, first = head.partition(b" ")
        rest = [bytes(self._store.get(self._key(rank, f"{what}/{index}")))
                for index in range(1, int(count))]
        return b"".join([first, *rest])

    def agree(self, doing: str, story: Dict[str, Any], may_differ=()) -> List[Dict[str, Any]]:
        """What all ranks say of a call. Raises ValueError on all of them where they differ.

        Begins the meeting. `may_differ` names fields that ranks say for themselves. Who calls again after a
        RuntimeError comes to the same meeting: a rank that was late finds the others there.
        """
        before = self._number, self._mine, self._old
        self.begin()
        self.say("story", json.dumps(story).encode())
        try:
            self._await(range(self.ranks), "story", doing, self.timeout_s)
        except RuntimeError:
            self._number, self._mine, self._old = before
            raise
        stories = [json.loads(self.hear(rank, "story", doing)) for rank in range(self.ranks)]
        found = differences([{name: value for name, value in one.items() if name not in may_differ}
                             for one in stories])
        if found:
            raise ValueError(f"ranks disagree at {doing}: {'; '.join(found)}")
        return stories

    def forget(self) -> None:
        """Takes back what this rank said before this meeting, which all ranks have heard."""
        for key in self._old:
            self._store.delete_key(key)
        self._old = []

    def leave(self) -> None:
        """Tells ranks that wait for this one that it comes no more."""
        self._store.set(f"left/{self.rank}", b"1")

    def _key(self, rank, what):
        return f"{self._number}/{rank}/{what}"

    def _set(self, what, value):
        key = f"{self._number}/{what}"
        self._store.set(key, value)
        self._mine.append(key)

    def _await(self, ranks, what, doing, patience_s):
        missing, nap_s = list(ranks), 1e-4
        until = time.monotonic() + patience_s
        while True:
            missing = [rank for rank in missing if not self._store.check([self._key(rank, what)])]
            if not missing:
                return
            left = [rank for rank in missing if self._store.check([f"left/{rank}"])]
            if left:
                raise RuntimeError(f"{spoken(left)} of {self.ranks} left before {doing}")
            if time.monotonic() > until:
                raise RuntimeError(f"{spoken(missing)} of {self.ranks} did not come to {doing} "
                                   f"within {patience_s:g} s")
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, LONGEST_NAP_S)
