"""Ranks as processes of torch.distributed: job.py's checks, and what is said where ranks are missing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import ranks  # noqa: F401  (PyTorch, or no tests)

HERE = pathlib.Path(__file__).resolve().parent
LONGEST_S = 280


def start(command, count):
    """What `count` processes wrote, and their exit codes: command(rank, path of a file to meet by)."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = pathlib.Path(folder) / "meet"
        jobs = [subprocess.Popen([sys.executable, *command, str(rank), str(meeting)], cwd=HERE, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(count)]
        try:
            told = [job.communicate(timeout=LONGEST_S) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
    return [(job.returncode, *texts) for job, texts in zip(jobs, told)]


class Job(unittest.TestCase):
    def test_every_check_on_every_rank(self):
        names = [line.split("(")[0][4:] for part in ("groups", "compile", "drop_in", "modules")
                 for line in (HERE / f"job_{part}.py").read_text().splitlines() if line.startswith("def check_")]
        self.assertGreater(len(names), 10)
        for rank, (code, out, err) in enumerate(start(["job.py"], 4)):
            with self.subTest(rank=rank):
                self.assertEqual(out.splitlines(), [f"{name} ok" for name in names], err[-2000:])
                self.assertEqual(code, 0, err[-2000:])
                # The interpreter ended with groups open, and without a word of that.
                self.assertNotIn("Exception ignored", err)


MISSING = """
import sys, time
import torch, torch.distributed as dist
import stretto.torch as st
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=3)
group = st.init(timeout_s=4)
if rank == 2:
    dist.barrier()
    sys.exit()
begin = time.monotonic()
try:
    st.matmul_all_reduce(torch.ones(4, 8), torch.ones(2, 8))
except RuntimeError as error:
    print(error, time.monotonic() - begin < 60)
dist.barrier()
"""


class Missing(unittest.TestCase):
    def test_a_rank_that_does_not_come_is_named_in_time(self):
        told = start(["-c", MISSING], 3)
        for rank in (0, 1):
            self.assertEqual(told[rank][1], "rank 2 of 3 did not come to matmul_all_reduce within 4 s True\n",
                             told[rank][2][-2000:])
        self.assertEqual([code for code, *_ in told], [0, 0, 0])


COMPILED = """
import os, sys
import torch, torch.distributed as dist
import stretto.torch as st
rank, ranks = int(sys.argv[1]), int(os.environ["RANKS"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=ranks)
name = dist.group.WORLD.group_name
def function(x, w):
    return st.all_gather_matmul(x, w, group=name), st.matmul_reduce_scatter(x[:3], w, group=name)
x, w = torch.full((4, 8), rank + 1.0), torch.ones(2, 8)
for one, other in zip(torch.compile(function, fullgraph=True)(x, w), function(x, w)):
    assert one.shape == other.shape and torch.equal(one, other), (one.shape, other.shape)
print(len(one))
"""


class Caches(unittest.TestCase):
    """What torch.compile keeps on disk is of one place in a group: rows depend on it."""

    def test_another_number_of_ranks_and_another_rank(self):
        with tempfile.TemporaryDirectory() as cache:
            for ranks, rows in ((1, ["3"]), (2, ["2", "1"])):
                with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, RANKS=str(ranks),
                                     TORCHINDUCTOR_COMPILE_THREADS="1"):
                    told = start(["-c", COMPILED], ranks)
                self.assertEqual([out.strip() for _, out, _ in told], rows, told[-1][2][-2000:])


AGAIN = """
import os, sys
import torch, torch.distributed as dist
import stretto.torch as st
rank = int(sys.argv[1])
x, w = torch.ones(2, 8), torch.ones(4, 8)
for turn, ranks in enumerate((2, 1, 2)):
    place = 0 if ranks == 1 else rank if turn == 0 else 1 - rank
    where = f"{sys.argv[2]}.{turn}" + (f".{rank}" if ranks == 1 else "")
    dist.init_process_group("gloo", init_method=f"file://{where}", rank=place, world_size=ranks)
    group = st.init(timeout_s=20)
    assert (group.rank, group.ranks) == (place, ranks), group
    assert st.init(timeout_s=20) is group
    assert st.matmul_all_reduce(x, w)[0, 0] == 8 * ranks
    dist.barrier()
    dist.destroy_process_group()
print("ok")
"""


class Again(unittest.TestCase):
    def test_process_groups_that_are_destroyed_and_made_again(self):
        """Names come again; groups of before are not found by them."""
        self.assertEqual([out for _, out, _ in start(["-c", AGAIN], 2)], ["ok\n", "ok\n"])


if __name__ == "__main__":
    unittest.main()
