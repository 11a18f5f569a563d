"""Contests of several ranks, as threads: who fails is out on all ranks, and nobody else."""

import os
import tempfile
import threading
import time
import unittest

from bench.contests.contest import Agreement, Contest, Lost, StepFile


class Store:
    def __init__(self, timeout_s=2):
        self.values, self.timeout_s = {}, timeout_s
        self.changed = threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, self.timeout_s):
                raise TimeoutError(f"no {key}")
            return self.values[key]


def on_ranks(count, body, store=None):
    store = store or Store()
    said = [None] * count

    def rank_main(rank):
        try:
            said[rank] = body(rank, Agreement(store, rank, count))
        except Lost as error:
            said[rank] = f"lost: {error}"
    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def failing(error):
    def step():
        raise error
    return step


class Contests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "out.step")

    def steps(self, rank=0):
        return StepFile(self.path, rank == 0)

    def test_what_fails_on_one_rank_is_out_on_all_and_others_go_on(self):
        def body(rank, agree):
            contest = Contest("row", agree, self.steps(rank))
            bad = failing(RuntimeError("no\nluck")) if rank == 1 else lambda: 5
            results = [contest.attempt("bad", bad), contest.attempt("good", lambda: rank + 1),
                       contest.attempt("bad", lambda: 7)]
            return results, contest.problems
        for rank, (results, problems) in enumerate(on_ranks(3, body)):
            self.assertEqual(results, [None, rank + 1, None])
            self.assertEqual(problems, {"bad": "rank 1: no"})

    def test_what_every_rank_says_is_told(self):
        said = {0: "timed out", 1: "out of memory", 2: "timed out", 3: None}

        def body(rank, agree):
            contest = Contest("row", agree, self.steps(rank))
            contest.attempt("bad", failing(RuntimeError(said[rank])) if said[rank] else lambda: 5)
            return contest.problems
        for problems in on_ranks(4, body):
            self.assertEqual(problems, {"bad": "ranks 0, 2: timed out; rank 1: out of memory"})

    def test_who_does_not_come_is_told_beside_what_others_say(self):
        def body(rank, agree):
            if rank == 1:
                return None
            return Contest("row", agree, self.steps(rank)).attempt("bad", failing(ValueError("no")))
        said = on_ranks(3, body, Store(timeout_s=0.2))
        self.assertEqual(said[0], "lost: rank 0: no; rank 1 did not come: no contest/1/1")

    def test_mistakes_of_the_script_are_not_swallowed(self):
        contest = Contest("row", Agreement(Store(), 0, 1), self.steps())
        with self.assertRaises(TypeError):
            contest.attempt("one", failing(TypeError("x")))

    def test_a_gpu_that_is_lost_on_one_rank_is_lost_for_all(self):
        def body(rank, agree):
            contest = Contest("row", agree, self.steps(rank))
            contest.attempt("slow", failing(Lost("no end within 1 s")) if rank else lambda: 1)
        self.assertEqual(on_ranks(2, body), ["lost: rank 1: no end within 1 s"] * 2)
        self.assertEqual(self.steps().read(), ("row", {"slow": "rank 1: no end within 1 s"}))

    def test_an_error_that_breaks_the_gpu_is_told_with_its_cause(self):
        contest = Contest("row", Agreement(Store(), 0, 1), self.steps(),
                          is_usable=failing(RuntimeError("illegal address")))
        with self.assertRaisesRegex(Lost, "wrong; then: illegal address"):
            contest.attempt("one", failing(ValueError("wrong")))

    def test_a_rank_that_does_not_come_is_lost(self):
        def body(rank, agree):
            if rank == 1:
                time.sleep(0.3)
                return "late"
            return Contest("row", agree, self.steps(rank)).attempt("one", lambda: 1)
        self.assertIn("rank 1 did not come", on_ranks(2, body, Store(timeout_s=0.1))[0])

    def test_who_comes_after_a_process_that_ended_goes_on_without_the_guilty(self):
        self.assertEqual(self.steps().read(), (None, {}))
        steps = self.steps()
        steps.note("row", "second", {"first": "refused"})
        row, problems = self.steps().read()
        self.assertEqual((row, problems), ("row", {"first": "refused", "second": "its process ended"}))
        contest = Contest(row, Agreement(Store(), 0, 1), steps, problems)
        self.assertIsNone(contest.attempt("second", failing(AssertionError)))
        self.assertEqual(contest.attempt("third", lambda: 3), 3)
        steps.remove()
        steps.remove()
        self.assertEqual(steps.read(), (None, {}))

    def test_only_rank_0_writes(self):
        self.steps(rank=1).note("row", "one", {})
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main()
