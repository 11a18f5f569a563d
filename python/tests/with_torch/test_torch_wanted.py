"""Ranks that need gradients of other tensors: backward would wait for ranks that do not come, so forward says so."""

import types
import unittest

from ranks import normal, run

import torch

import stretto.torch as st
from stretto.torch import _engine, _wanted

X, W = normal(1, 4, 16), normal(2, 16, 16)
IDS, WEIGHTS, STACK = torch.zeros(4, 2, dtype=torch.int64), torch.ones(4, 2), normal(3, 2, 16, 16)


def own(needs, *tensors):
    """Copies, of which those are to have gradients whose letter is in `needs`."""
    return [one.clone().requires_grad_(letter in needs) for letter, one in zip("xwb", tensors)]


CALLS = {
    "all_gather_matmul": lambda g, needs: st.all_gather_matmul(*own(needs, X, W), group=g),
    "matmul_reduce_scatter": lambda g, needs: st.matmul_reduce_scatter(*own(needs, X, W, W[0]), group=g),
    "matmul_all_reduce": lambda g, needs: st.matmul_all_reduce(*own(needs, X, W, W[0]), group=g),
    "matmul_all_to_all": lambda g, needs: st.matmul_all_to_all(*own(needs, X, W, W[0]), group=g),
    "all_to_all_matmul": lambda g, needs: st.all_to_all_matmul(*own(needs, X[:, :8], W), group=g),
    "mlp": lambda g, needs: st.mlp(*own(needs, X, W), W, g, activation="silu", sequence_parallel=True),
    "moe": lambda g, needs: st.moe(own(needs, X)[0], IDS, WEIGHTS, own(needs, STACK, STACK)[1], STACK, STACK, g),
    "kept": lambda g, needs: st.all_gather_matmul(*own(needs, X, W), group=g, keep_gathered=True),
}


class Wanted(unittest.TestCase):
    def both(self, op, needs):
        """Forward and backward on two ranks, whose tensors need these gradients."""
        def step(group):
            y = CALLS[op](group, needs[group.rank])
            if y.requires_grad:
                y.float().sum().backward()
        run(2, step)

    def test_what_backward_would_wait_for_is_said_in_forward(self):
        for op, needs, said in (
                ("all_gather_matmul", ("xw", "w"), "x and weight on rank 0, weight on rank 1"),
                ("all_gather_matmul", ("x", "xw"), "x on rank 0, x and weight on rank 1"),
                ("matmul_reduce_scatter", ("xw", "w"), "x on rank 0, weight or bias on rank 1"),
                ("matmul_reduce_scatter", ("", "b"), "nothing on rank 0, weight or bias on rank 1"),
                ("matmul_all_to_all", ("wb", "w"), "weight and bias on rank 0, weight on rank 1"),
                ("all_to_all_matmul", ("xw", "w"), "x and weight on rank 0, weight on rank 1"),
                ("mlp", ("x", ""), "any of its tensors on rank 0, nothing on rank 1"),
                ("moe", ("", "w"), "nothing on rank 0, any of its tensors on rank 1")):
            with self.subTest(op=op, needs=needs), self.assertRaisesRegex(
                    ValueError, f"^ranks disagree at {op}: what needs a gradient is {said}$"):
                self.both(op, needs)

    def test_what_it_would_not_may_differ(self):
        for op, needs in (("matmul_all_reduce", ("x", "wb")), ("matmul_reduce_scatter", ("xwb", "x")),
                          ("matmul_reduce_scatter", ("w", "b")), ("matmul_all_to_all", ("xw", "w")),
                          ("mlp", ("x", "w")), ("moe", ("xw", "w")), ("kept", ("xw", "x"))):
            with self.subTest(op=op, needs=needs):
                self.both(op, needs)

    def test_a_rank_without_gradients_says_nothing(self):
        def call(group):
            with torch.set_grad_enabled(group.rank == 0):
                CALLS["all_gather_matmul"](group, "x" if group.rank == 0 else "w")
        run(2, call)

    def test_a_call_that_was_refused_says_nothing_of_the_next(self):
        _wanted.say("mlp", x=[X.clone().requires_grad_()])  # nobody takes it
        with torch.no_grad():
            _wanted.say("mlp", x=[X])
        self.assertIsNone(_wanted.take("mlp"))

    def test_on_gpus_it_makes_no_other_kind_of_call(self):
        """Of a kind that ranks have compared nobody waits for the others on the host."""
        met = []
        group = types.SimpleNamespace(agreed=set(), options=types.SimpleNamespace(compare=False),
                                      meeting=types.SimpleNamespace(agree=lambda op, story: met.append(story)))
        call = types.SimpleNamespace(op="mlp", sizes=(("m", 4),), dtype=torch.bfloat16, said={},
                                     device=torch.device("cuda"))
        for tensors in ([X.clone().requires_grad_()], [X]):
            _wanted.say("mlp", x=tensors)
            _engine.agree(call, group, None)
        self.assertEqual([story["what needs a gradient"] for story in met], ["x"])


if __name__ == "__main__":
    unittest.main()
