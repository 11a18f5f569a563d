"""Forks of a process with a context, by the library beside a driver that does nothing (tests/stub)."""

import os
import pathlib
import subprocess
import sys
import unittest

import stretto
from fakes import Tensor

STUBS = pathlib.Path(os.environ.get("STRETTO_STUBS", "/nowhere"))
INSIDE = "Inside"  # the tests that need the stub, and are skipped without it


class Forks(unittest.TestCase):
    def test_in_a_process_that_finds_the_stub(self):
        if not STUBS.is_dir():
            self.skipTest("STRETTO_STUBS does not name build/NAME/tests/stub")
        folders = [str(STUBS / "driver"), str(STUBS / "nvrtc"), os.environ.get("LD_LIBRARY_PATH", "")]
        done = subprocess.run(
            [sys.executable, "-m", "unittest", f"test_forks.{INSIDE}"], capture_output=True, text=True, timeout=60,
            env={**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "STUB_GPUS": "NVIDIA H200:132:9.0",
                 "STRETTO_MEASURE_MS": "0", "STRETTO_CACHE_PATH": "/nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("skipped", done.stderr)


@unittest.skipUnless(os.environ.get("STUB_GPUS"), "a part of Forks")
class Inside(unittest.TestCase):
    def setUp(self):
        self.context = stretto.Context(rank=0, ranks=1, gpu=0)

    def make(self):
        return stretto.Operation(self.context, "gemm-rs", m=256, n=512, k=1024, schedule="tiles", rows="fixed")

    def test_a_workspace_is_there_when_the_context_is(self):
        self.assertEqual(self.context.workspace_bytes, 0)
        with stretto.Context(rank=0, ranks=1, gpu=0, workspace_bytes=3 << 20) as context:
            self.assertEqual(context.workspace_bytes, 3 << 20)
        with stretto.Context(rank=0, ranks=1, gpu=0, workspace_grows=True) as context:
            self.assertEqual(context.workspace_bytes, 0)
            operation = stretto.Operation(context, "gemm-rs", m=256, n=512, k=1024, schedule="tiles", rows="fixed")
            self.assertEqual(operation.workspace_bytes, context.workspace_bytes)  # one rank has nobody to share with

    def test_sms_that_there_are_can_be_left_to_others(self):
        with stretto.Context(rank=0, ranks=1, gpu=0, free_sms=66):
            pass
        with self.assertRaisesRegex(ValueError, "free_sms=67: of the 132 SMs of NVIDIA H200 0 to 66 can be left"):
            stretto.Context(rank=0, ranks=1, gpu=0, free_sms=67)

    def test_the_interpreter_ends_where_nothing_was_closed(self):
        program = ("import stretto; context = stretto.Context(rank=0, ranks=1, gpu=0); operation = stretto.Operation("
                   "context, 'gemm-rs', m=256, n=512, k=1024, schedule='tiles', rows='fixed')")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def use_in_fork(self, operation):
        tensors = {"a": Tensor(256, 1024), "b": Tensor(512, 1024, address=2 << 20),
                   "out": Tensor(256, 512, address=4 << 20)}
        for call in (lambda: operation.run(tensors), lambda: operation.prepare(256), operation.finish, self.make,
                     lambda: self.context.empty_shared(4, 4)):
            with self.assertRaisesRegex(RuntimeError, "this process was forked .*'spawn'"):
                call()
        self.assertEqual(operation.error(), "")
        operation.close()
        self.context.close()
        with self.assertRaisesRegex(ValueError, "the context is closed"):
            self.make()

    def test_they_have_no_rank_and_take_nothing_away(self):
        operation = self.make()
        child = os.fork()
        if child == 0:
            try:
                self.use_in_fork(operation)
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        operation.prepare(256)
        operation.finish()
        operation.close()
        self.context.close()


if __name__ == "__main__":
    unittest.main()
