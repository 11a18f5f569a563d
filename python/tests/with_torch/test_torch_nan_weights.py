"""Weights of choices that are NaNs: they reach the tokens that have them, and no others."""

import unittest

from ranks import normal, run

import torch

import stretto.torch as st

T, H, WIDTH, EXPERTS, K = 12, 80, 192, 6, 2


class NanWeights(unittest.TestCase):
    def tensors(self, dtype):
        """x, ids, weights, gate, up, down of all ranks."""
        ids = torch.arange(T * K).view(T, K) % EXPERTS
        ids[4, 0] = ids[7, 0] = -1
        return [normal(1, T, H, dtype=dtype), ids, normal(3, T, K, dtype=torch.float32).abs(),
                normal(4, EXPERTS, WIDTH, H, dtype=dtype) / 4, normal(5, EXPERTS, WIDTH, H, dtype=dtype) / 4,
                normal(6, EXPERTS, H, WIDTH, dtype=dtype) / 5]

    @staticmethod
    def of(tensors, ranks, dealt, fallback=False):
        """What ranks of as many tokens, or fewer, get."""
        block, cuts = -(-T // ranks), (0, 0, 0) if dealt else (1, 1, 2)

        def call(group):
            own = [one[block * group.rank:][:block].clone() for one in tensors[:3]]
            stacks = [one.chunk(ranks, cut)[group.rank].contiguous() for one, cut in zip(tensors[3:], cuts)]
            return st.moe(*own, *stacks, group, expert_parallel=dealt)
        return torch.cat(run(ranks, call, fallback=fallback))

    def test_reach_the_tokens_that_have_them(self):
        for ranks, dealt, dtype in ((1, False, torch.bfloat16), (2, False, torch.bfloat16), (2, True, torch.bfloat16),
                                    (3, True, torch.float16), (2, True, torch.float32), (2, True, torch.float64)):
            with self.subTest(ranks=ranks, dealt=dealt, dtype=dtype):
                fallback = dtype is torch.float64  # by PyTorch
                tensors = self.tensors(dtype)
                right = self.of(tensors, ranks, dealt, fallback)
                self.assertFalse(right.isnan().any())
                for token, slot in ((0, 0), (7, 1), (11, 1)):
                    tensors[2][token, slot] = float("nan")
                tensors[2][4, 0] = float("nan")  # of a choice that is none
                got = self.of(tensors, ranks, dealt, fallback)
                have = torch.zeros(T, dtype=torch.bool)
                have[[0, 7, 11]] = True
                self.assertTrue(got[have].isnan().all())
                self.assertTrue(torch.equal(got[~have], right[~have]))


if __name__ == "__main__":
    unittest.main()
