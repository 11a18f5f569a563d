"""Ranks as threads of one process: for tests, and to look at operators without a launcher."""

import itertools
import threading
from typing import Any, Callable, List

import torch.distributed as dist

from . import groups

_numbers = itertools.count()
MOST_RANKS = 1024


class Threads:
    """A group whose ranks are threads, for CPU tensors: run() calls a function on each.

    Gradients may be taken in a later run() than results. Close it, or use it in `with`. Options are those
    of init().
    """

    def __init__(self, ranks: int, *, timeout_s: float = groups.DEFAULT_TIMEOUT_S,
                 schedule: str = "auto", fallback: bool = True, compare: bool = False, **of_gpus):
        if not isinstance(ranks, int) or not 1 <= ranks <= MOST_RANKS:
            raise ValueError(f"ranks is {ranks!r}; a whole number from 1 to {MOST_RANKS} was expected")
        options, store = groups.options_of(timeout_s, schedule, fallback, compare, **of_gpus), dist.HashStore()
        number = next(_numbers)
        self.groups = [groups.register(groups.Group(f"threads-{number}.{rank}", rank, ranks, store, options))
                       for rank in range(ranks)]

    def run(self, function: Callable[[groups.Group], Any]) -> List[Any]:
        """function(group) on every rank's thread; the results by rank.

        Raises the error of the rank that failed first: the others are told, and do not wait for it. After
        that the threads' group is of no more use.
        """
        results, errors = [None] * len(self.groups), []

        def call(group):
            try:
                results[group.rank] = function(group)
            except BaseException as error:  # whatever it is, the other ranks must not wait
                errors.append(error)
                group.meeting.leave()

        threads = [threading.Thread(target=call, args=(group,), name=f"rank {group.rank}")
                   for group in self.groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def close(self) -> None:
        for group in self.groups:
            group.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def run_threads(function: Callable[[groups.Group], Any], ranks: int, **options) -> List[Any]:
    """function(group) on `ranks` threads, each a rank of a group that ends with it; the results by rank.

    Raises the error of the rank that failed first. Options are those of init().
    """
    with Threads(ranks, **options) as threads:
        return threads.run(function)
