"""Contestants of a benchmark that take turns on all ranks: one that fails ends for itself, not for the others.

Nothing here knows of GPUs. What a contestant does on the ranks is collective, so a failure on one rank is
agreed on by all before anybody goes on. Where a GPU does not come to an end any more (Lost), the process
must: what it was at stands in a step file, so that a restarted one goes on without the guilty contestant.
"""

import json
import os
import time


class Lost(RuntimeError):
    """The GPU, or another rank, does not come to the end of a step: this process can measure nothing more."""


def first_line(error):
    return (str(error).strip() or type(error).__name__).split("\n")[0]


class Agreement:
    """The ranks' problems, exchanged by a store with set(key, text) and get(key), which waits."""

    def __init__(self, store, rank, ranks):
        self.store, self.rank, self.ranks = store, rank, ranks
        self.rounds = 0

    def __call__(self, problem, lost):
        """The problems of all ranks, each with who has it ("" when none has), and whether any is lost."""
        self.rounds += 1
        key = f"contest/{self.rounds}/"
        self.store.set(f"{key}{self.rank}", json.dumps([problem, lost]))
        having, any_lost = {}, False
        for rank in range(self.ranks):
            try:
                one, is_lost = json.loads(self.store.get(f"{key}{rank}"))
            except Exception as error:  # whatever the store raises when nobody comes
                absent = f"rank {rank} did not come: {first_line(error)}"  # of others one would be waited for, too
                raise Lost("; ".join(filter(None, [self.told(having), absent]))) from None
            any_lost = any_lost or is_lost
            if one:
                having.setdefault(one, []).append(rank)
        return self.told(having), any_lost

    def told(self, having):
        """In one line; problem -> the ranks that have it, of which one of many may be the cause of the others'."""
        if self.ranks == 1:
            return "; ".join(having)
        return "; ".join(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {one}"
                         for one, ranks in having.items())


class StepFile:
    """What the job is at, and since when, for the process that comes after this one; only rank 0 writes."""

    def __init__(self, path, writes):
        self.path, self.writes, self.begun = path, writes, time.time()

    def note(self, row, label, problems, problem=None):
        if not self.writes:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"row": row, "label": label, "problems": problems, "problem": problem, "begun": self.begun}, file)
        os.replace(self.path + ".new", self.path)

    def read(self):
        """(row, problems) where an earlier process ended: its contestant is out there. `begun` is that one's then."""
        try:
            with open(self.path, encoding="utf-8") as file:
                noted = json.load(file)
        except FileNotFoundError:
            return None, {}
        self.begun = noted["begun"]
        problem = noted["problem"] or "its process ended"
        return noted["row"], {**noted["problems"], noted["label"]: problem}

    def remove(self):
        if self.writes and os.path.exists(self.path):
            os.remove(self.path)


class Contest:
    """The contestants of one row of results."""

    def __init__(self, row, agree, steps, problems=None, is_usable=lambda: None):
        """problems: label -> why it takes no part. is_usable() raises Lost when the GPU is not."""
        self.row, self.agree, self.steps = row, agree, steps
        self.problems = dict(problems or {})
        self.is_usable = is_usable

    def attempt(self, label, step):
        """step() on all ranks. Its result; None where the contestant is out, or now fails on any rank.

        Raises Lost on all ranks when it was lost on any.
        """
        if label in self.problems:
            return None
        self.steps.note(self.row, label, self.problems)
        result, problem, lost = None, "", False
        try:
            result = step()
        except (ValueError, RuntimeError) as error:
            problem, lost = first_line(error), isinstance(error, Lost)
        if problem and not lost:
            try:
                self.is_usable()
            except RuntimeError as error:
                problem, lost = f"{problem}; then: {first_line(error)}", True
        problem, lost = self.agree(problem, lost)
        if problem:
            self.problems[label] = problem
        if lost:
            self.steps.note(self.row, label, self.problems, problem)
            raise Lost(problem)
        return None if problem else result
