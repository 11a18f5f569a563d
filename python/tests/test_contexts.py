"""Contexts: what reaches the library, ranks that meet, and launchers that make no sense."""

import ctypes
import os
import unittest
from unittest import mock

import stretto
from fakes import Library
from on_a_fake_gpu import OnAFakeGpu


class Contexts(OnAFakeGpu):
    def test_a_context_knows_its_rank(self):
        self.assertEqual((self.context.rank, self.context.ranks, self.context.gpu), (1, 2, 0))
        self.assertEqual(self.library.opened.timeout_s, 3.0)
        self.assertEqual(self.library.opened.ranks, 0)
        self.assertFalse(self.library.opened.exchange)

    def test_a_workspace_of_all_operations(self):
        self.assertEqual((self.library.opened.workspace_bytes, self.library.opened.workspace_grows), (0, 0))
        context = stretto.Context(workspace_bytes=1 << 33, workspace_grows=True)
        self.assertEqual((self.library.opened.workspace_bytes, self.library.opened.workspace_grows), (1 << 33, 1))
        self.assertEqual((context.workspace_bytes, self.make().workspace_bytes), (1 << 33, 1 << 20))
        for wrong, says in ((-1, "workspace_bytes is -1; bytes from 0 on"), ("2G", "whole number")):
            with self.assertRaisesRegex(ValueError, says):
                stretto.Context(workspace_bytes=wrong)
        context.close()
        with self.assertRaisesRegex(ValueError, "the context is closed"):
            context.workspace_bytes

    def test_sms_are_left_to_others(self):
        self.assertEqual(self.library.opened.free_sms, 0)
        stretto.Context(free_sms=8)
        self.assertEqual(self.library.opened.free_sms, 8)
        with self.assertRaisesRegex(ValueError, "free_sms is -1; SMs from 0 on were expected"):
            stretto.Context(free_sms=-1)

    def test_streams_are_the_callers_to_order_or_not(self):
        for given in (False, True):
            stretto.Context(orders_streams=given)
            self.assertEqual(self.library.opened.orders_streams, given)

    def exchange(self, gather, num_bytes=4):
        """What the library's call of the function returns, and leaves."""
        stretto.Context(rank=1, ranks=2, gpu=3, exchange=gather)
        opened = self.library.opened
        self.assertEqual((opened.rank, opened.ranks, opened.gpu), (1, 2, 3))
        everyone = ctypes.create_string_buffer(2 * num_bytes)
        status = opened.exchange(None, ctypes.c_char_p(b"mine"), everyone, num_bytes)
        return status, everyone.raw

    def test_ranks_meet_through_a_function(self):
        self.assertEqual(self.exchange(lambda mine: [b"zero", mine]), (0, b"zeromine"))

    def test_what_the_function_raises_stays_in_python(self):
        self.assertEqual(self.exchange(lambda mine: [b"too long", mine])[0], 1)
        self.assertEqual(self.exchange(lambda mine: 1 / 0)[0], 1)

        def refuse(request, _):
            self.assertEqual(request._obj.exchange(None, ctypes.c_char_p(b"mine"), None, 4), 1)
            raise RuntimeError("the exchange of the ranks failed: it returned 1")
        with mock.patch.object(Library, "_context_open", lambda _, *given: refuse(*given)):
            with self.assertRaises(ZeroDivisionError):
                stretto.Context(rank=0, ranks=2, exchange=lambda mine: 1 / 0)

    def test_half_a_job_is_refused(self):
        for words, says in (({"rank": 1}, "ranks is missing"), ({"gpu": 0}, "ranks is missing"),
                            ({"ranks": 0}, "ranks is 0"), ({"ranks": 2, "rank": -1}, "rank is -1"),
                            ({"ranks": "2"}, "whole number")):
            with self.assertRaisesRegex(ValueError, says):
                stretto.Context(**words)


class WithoutAGpu(unittest.TestCase):
    def test_launchers_that_make_no_sense_are_value_errors(self):
        with mock.patch.dict(os.environ, RANK="3", WORLD_SIZE="2"):
            with self.assertRaisesRegex(ValueError, "ranks of a job of 2 are 0 to 1"):
                stretto.Context()
        with self.assertRaisesRegex(ValueError, "at most 3600"):
            stretto.Context(timeout_s=0, ranks=1)

    def test_without_a_launcher_there_is_no_job_of_one(self):
        with self.assertRaisesRegex(ValueError, "no launcher has said .*torchrun.*ranks=1: alone"):
            stretto.Context()

    def test_a_missing_gpu_is_a_runtime_error(self):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            with self.assertRaisesRegex(RuntimeError, "no CUDA driver"):
                stretto.Context(ranks=1)
        else:
            self.skipTest("there is a CUDA driver")


if __name__ == "__main__":
    unittest.main()
