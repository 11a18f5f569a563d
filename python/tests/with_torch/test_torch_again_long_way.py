"""Calls that do not come again, since they are others or nobody may learn them."""

import ctypes
import os
import unittest
from unittest import mock

import ranks  # noqa: F401  (PyTorch, or no tests)
from again import Calls, Operation

import torch
from torch.utils.flop_counter import FlopCounterMode

import stretto
import stretto.torch as st
from stretto._library import CCallTensor
from stretto.operations import ADDRESS, WORDS
from stretto.torch import _records, _repeats, _serve
from stretto.torch._checked import Checked


class Other(torch.Tensor):
    """What others may have made of a tensor."""


class LongWay(Calls):
    def test_what_goes_the_long_way(self):
        x, w = self.x, self.w
        crooked = torch.zeros(8 * 64 + 1).bfloat16()[1:].view(2, 4, 64)
        gaps = torch.zeros(2, 4, 128).bfloat16()[..., :64]
        call = lambda x=x, w=w, **more: st.matmul_all_reduce(x, w, group=self.group, **more)  # noqa: E731
        call()
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        call(x=crooked)
        call(x=gaps)
        call(out=torch.empty(2 * 4 * 32 + 1).bfloat16()[1:].view(2, 4, 32))
        call(x=torch.zeros(2, 4, 64).bfloat16().as_subclass(Other))
        self.assertEqual(self.ways(), ["long"] * 4)
        bad = [{"w": w.half()}, {"x": list(x)}, {"x": x.half()}]
        if self.way is _repeats.Repeats:  # to Python, CPU and meta tensors have the same number of a device
            bad += [{"w": w.to("meta")}, {"x": x.to("meta")}]
        for one in bad:
            with self.assertRaises((AttributeError, RuntimeError, TypeError, ValueError)):
                call(**one)
        self.assertEqual(self.ways(), [])
        call(w=torch.zeros(32, 128).bfloat16()[:, ::2])
        self.assertEqual(self.ways(), ["long"])
        with mock.patch.object(_records.Record, "run", lambda *given: self.fail("the dispatcher is asked first")):
            with mock.patch.object(torch.ops.stretto, "matmul_all_reduce") as op:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    call()
                with FlopCounterMode(display=False):
                    call()
        self.assertEqual(op.call_count, 2)
        pieces = torch.zeros(64, 64).bfloat16().split(32)
        for weights in (pieces, pieces[::-1], [pieces[0], pieces[1].clone()], pieces):
            st.all_gather_matmul(x, list(weights), group=self.group)
        self.assertEqual(self.ways(), ["long"] * 3 + ["again"])
        calls = _records.num_calls()
        for _ in range(2):  # nothing is learnt twice
            call(out=torch.empty(2 * 4 * 32 + 1).bfloat16()[1:].view(2, 4, 32))
        self.assertEqual(_records.num_calls(), calls)
        self.assertEqual(self.ways(), ["long"] * 2)
        for _ in range(2):  # served, and not learnt
            call(out=torch.empty(2, 4, 32).bfloat16().as_subclass(Other))
            many = list(torch.zeros(34 * 32, 64).bfloat16().split(32))
            st.all_gather_matmul(x, many, group=self.group)
        self.assertEqual(_records.num_calls(), calls)
        self.assertEqual(self.ways(), ["long"] * 4)
        with torch.no_grad():
            call(w=torch.nn.Parameter(w.clone()))
        self.assertEqual(self.ways(), ["again"])
        self.assertIs(type(next(iter(_records._records.values()))._way), self.way)

    def test_captures(self):
        """Hold a call that came before, but where a graph holds several runs or none."""
        call = lambda: st.matmul_all_reduce(self.x, self.w, group=self.group)  # noqa: E731
        call()
        self.is_capturing = True
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        _records.forget()
        self.is_capturing, Operation.made[0].runs = False, 2
        call()
        call()
        self.assertEqual(self.ways(), ["long", "again"])
        self.is_capturing = True
        call()
        self.assertEqual(self.ways(), ["long"])

    def test_runs_of_other_calls_are_not_learnt(self):
        """A call that cannot come again leaves nothing for one that PyTorch serves."""
        x, w, group = torch.zeros(1, 8, 64).bfloat16(), self.w, self.group
        st.all_gather_matmul(x, w, group=group, dim=1)
        self.assertEqual(self.ways(), ["long"])
        with mock.patch.object(_serve, "refusal", lambda call: "no reason"):
            st.all_gather_matmul(x[0], w, group=group)
        self.assertFalse(_records._records)

    def test_copies_are_not_taken_for_what_was_given(self):
        for _ in range(2):  # dimension 1 is dealt, and rows are brought into another order
            st.all_gather_matmul(self.x, self.w, group=self.group, dim=1)
            st.matmul_all_reduce(torch.zeros(2, 4, 128).bfloat16()[..., :64], self.w, group=self.group)
        self.assertEqual(self.ways(), ["long"] * 4)
        self.assertFalse(_records._records)

    def test_groups_that_compare_every_call(self):
        with st.Threads(1, timeout_s=60, compare=True) as threads:
            for _ in range(3):
                st.matmul_all_reduce(self.x, self.w, group=threads.groups[0])
        self.assertEqual(self.ways(), ["long"] * 3)

    def test_a_fork_knows_no_calls(self):
        for _ in range(2):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        child = os.fork()
        if child == 0:
            try:
                st.matmul_all_reduce(self.x, self.w, group=self.group)
            except RuntimeError as error:
                os._exit("was forked" in str(error))
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 1)

    def test_failures(self):
        """The library refuses a call behind one that failed: what it says is raised."""
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.status = 3
        says = "status 3" if self.way is Checked else stretto._library.library().last_error().decode()
        with self.assertRaisesRegex(RuntimeError, says):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.status = 2
        with self.assertRaises(RuntimeError if self.way is Checked else ValueError):
            st.matmul_all_reduce(self.x, self.w, group=self.group)

    def test_a_library_without_them_is_older_than_the_package(self):
        with mock.patch.dict(_repeats.FUNCTIONS, of_tomorrow=(ctypes.c_int, [])), \
                self.assertRaisesRegex(stretto.LibraryNotFound, "has no stretto_repeats_of_tomorrow: it is older than "
                                       "this package; .*build it anew"):
            _repeats._functions.__wrapped__()

    def test_names_last_as_long_as_calls(self):
        """Also where the operation has forgotten them since."""
        for _ in range(2):
            st.matmul_all_reduce(self.x, self.w, group=self.group)
        Operation.made[0]._kept.clear()
        junk = [bytes([65 + i % 20]) * 2 for i in range(4096)]
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.assertEqual(set(self.enqueued[-1][2]), {"a", "b", "out"}, junk[0])

    def test_operations_that_are_closed(self):
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.group.engines["cpu"].close()
        st.matmul_all_reduce(self.x, self.w, group=self.group)
        self.assertEqual(self.ways(), ["long"] * 2)
        self.assertEqual(len(Operation.made), 2)

    def test_arguments_are_laid_out_as_c_has_them(self):
        array = (CCallTensor * 2)(CCallTensor(b"a", 0, 0, 1, 2), CCallTensor(b"b", 0, 0, 3, 4))
        words = (ctypes.c_uint64 * (2 * WORDS)).from_buffer(array)
        words[WORDS + ADDRESS] = 9
        self.assertEqual((array[0].address, array[1].address, array[1].row_stride), (1, 9, 4))


class LongWayInPython(LongWay):
    way = Checked


if __name__ == "__main__":
    unittest.main()
