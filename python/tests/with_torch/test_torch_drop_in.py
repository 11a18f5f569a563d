"""torch.ops.symm_mem by Stretto: over kernels of PyTorch's own, in several releases, and what is not served."""

import inspect
import unittest
from unittest import mock

from ranks import Numbers, normal

import torch

import stretto.torch as st
from stretto.torch import _kernels
from stretto.torch.symm_mem import SERVED

try:
    import torch.distributed._symmetric_memory as symmetric
except ImportError:
    symmetric = None

RANKS, K, N = 2, 16, 8
REAL = torch.library.Library.impl
NAMES = tuple(SERVED)
KEYS = [f"symm_mem/{name}/CUDA" for name in NAMES]


def refuse(library, name, key):
    if f"{library.ns}/{name}/{key}" in torch.library._impls:
        raise RuntimeError("This is not allowed since there's already a kernel registered from python")


def told_impl(library, name, function, key="", *, with_keyset=False, allow_override=False):
    """As releases that override where they are told."""
    if not allow_override:
        refuse(library, name, key)
    told = {"allow_override": True} if "allow_override" in inspect.signature(REAL).parameters else {}
    REAL(library, name, function, key, with_keyset=with_keyset, **told)


def never_impl(library, name, function, key="", *, with_keyset=False):
    """As those that know of no override."""
    refuse(library, name, key)
    REAL(library, name, function, key, with_keyset=with_keyset)


@unittest.skipUnless(symmetric, "this PyTorch has no torch.ops.symm_mem")
class DropIn(Numbers):
    def setUp(self):
        self.addCleanup(st.disable_symm_mem)
        st.reset_report()

    def scatter(self, x, w, **options):
        return st.run_threads(lambda group: torch.ops.symm_mem.fused_matmul_reduce_scatter(
            x, w.t(), "sum", 0, group.name), RANKS, timeout_s=60, **options)

    def test_no_weight_is_pytorchs_own(self):
        st.enable_symm_mem()
        x = normal(1, 4, K)
        with mock.patch.object(symmetric, "_fused_all_gather_matmul_fallback", lambda a, *_, **__: (a, [])):
            made = st.run_threads(lambda group: torch.ops.symm_mem.fused_all_gather_matmul(x, [], 0, group.name), RANKS)
        self.assertEqual([outputs for _, outputs in made], [[], []])
        self.assertEqual(st.report().fallbacks, {("symm_mem.fused_all_gather_matmul", "there is no B"): RANKS})

    def test_over_pytorchs_own_kernels_in_every_release(self):
        x, w = normal(1, 4, K), normal(2, N, K)
        for impl in (REAL, told_impl, never_impl):
            with self.subTest(impl.__name__), mock.patch.object(torch.library.Library, "impl", impl):
                for _ in range(2):  # PyTorch's are there again in between
                    self.assertLessEqual(set(KEYS), torch.library._impls)
                    st.enable_symm_mem()
                    st.enable_symm_mem()
                    for rank, y in enumerate(self.scatter(x, w)):
                        self.assert_close(y, RANKS * (x.double() @ w.double().t())[2 * rank:][:2])
                    st.disable_symm_mem()
                    with self.assertRaises(NotImplementedError):  # it has none for CPUs
                        torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w.t(), "sum", 0, "0")
        self.assertLessEqual(set(KEYS), torch.library._impls)

    def test_pytorchs_own_kernels_come_back(self):
        """One of Python's that was there before us."""
        library = torch.library.Library("symm_mem", "IMPL")
        self.addCleanup(library._destroy)
        library.impl(NAMES[1], lambda *given: "PyTorch's", "CPU")
        call = torch._C._dispatch_dump
        before = call(f"symm_mem::{NAMES[1]}")
        st.enable_symm_mem()
        self.assertNotEqual(call(f"symm_mem::{NAMES[1]}"), before)
        st.disable_symm_mem()
        self.assertEqual(call(f"symm_mem::{NAMES[1]}"), before)
        self.assertIn(f"symm_mem/{NAMES[1]}/CPU", torch.library._impls)

    def test_a_weight_as_it_lies_is_turned(self):
        """As the gradient of x takes it: rows [..., N] by a weight [N, K]."""
        x, w, v = normal(1, 4, N), normal(2, N, K), normal(3, N, K + 4)
        scatter, gather = (f"symm_mem.{name}, B turned" for name in reversed(NAMES))

        def program(group):
            return (torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", 0, group.name),
                    torch.ops.symm_mem.fused_all_gather_matmul(x, [w, v], 0, group.name, return_A=False)[1],
                    torch.ops.symm_mem.fused_all_gather_matmul(x, [w.t().contiguous().t(), v], 0, group.name,
                                                               return_A=False)[1])

        st.enable_symm_mem()
        for rank, (own, *gathered) in enumerate(st.run_threads(program, RANKS, timeout_s=60, fallback=False)):
            self.assert_close(own, RANKS * (x.double() @ w.double())[2 * rank:][:2])
            for parts in gathered:
                for part, weight in zip(parts, (w, v)):
                    self.assert_close(part, (x.double() @ weight.double()).repeat(RANKS, 1))
        self.assertEqual({op: count for op, count in st.report().served.items() if op.startswith("symm_mem")},
                         {scatter: RANKS, gather: 2 * RANKS})

    def test_gathered_rows_are_handed_over(self):
        """By the plan of the product, in the layout that PyTorch's own kernel says, which compiled code asserts."""
        weights = normal(2, N, K).t(), normal(3, N + 4, K).t()
        st.enable_symm_mem()
        for dim in range(3):
            x = [normal(10 + rank, 2, 3, 4, K) for rank in range(RANKS)]
            right = torch.cat(x, dim)
            for is_kept in (True, False):
                found = st.run_threads(lambda group: torch.ops.symm_mem.fused_all_gather_matmul(
                    x[group.rank], weights, dim, group.name, return_A=is_kept), RANKS, timeout_s=60, fallback=False)
                for gathered, parts in found:
                    like = right.movedim(dim, 0).contiguous().movedim(0, dim)
                    self.assertEqual(gathered is not None, is_kept)
                    for got, expected in zip((*parts, gathered), (*[like @ one for one in weights], like)):
                        if got is None:
                            continue
                        moved = expected.movedim(dim, 0).contiguous().movedim(0, dim)
                        self.assertEqual((got.shape, got.stride()), (moved.shape, moved.stride()))
                        self.assert_close(got, expected)
                    self.assertTrue(gathered is None or torch.equal(gathered, right))
        st.enable_symm_mem(return_gathered=False)
        for gathered, _ in st.run_threads(lambda group: torch.ops.symm_mem.fused_all_gather_matmul(
                x[group.rank], weights, 0, group.name), RANKS, timeout_s=60, fallback=False):
            self.assertIsNone(gathered)
        self.assertEqual(set(st.report().fallbacks), set())

    def test_one_rank_shares_no_memory(self):
        x, w = normal(1, 4, K), normal(2, N, K)
        st.enable_symm_mem()
        (gathered, _), = st.run_threads(lambda group: torch.ops.symm_mem.fused_all_gather_matmul(
            x, [w.t()], 0, group.name), 1, timeout_s=60, fallback=False)
        self.assertTrue(torch.equal(gathered, x))
        self.assertNotEqual(gathered.data_ptr(), x.data_ptr())

    @unittest.skipUnless(hasattr(torch.ops.symm_mem, "fused_all_gather_scaled_matmul"), "this PyTorch has no fp8 here")
    def test_fp8_is_pytorchs_and_counted(self):
        a, b = normal(1, 4, K).to(torch.float8_e4m3fn), normal(2, N, K).to(torch.float8_e4m3fn)
        one, given = torch.ones(1), []
        st.enable_symm_mem()

        def gather(group):
            return torch.ops.symm_mem.fused_all_gather_scaled_matmul(
                a, [b.t()], one, [one], 0, group.name, [None], [None], [torch.bfloat16], [False])

        with mock.patch.object(symmetric, "_fused_all_gather_scaled_matmul_fallback",
                               lambda *more: given.append(more) or (a, [a])):
            st.run_threads(gather, RANKS, timeout_s=60)
        self.assertEqual([len(more) for more in given], [10] * RANKS)
        ((op, reason), count), = st.report().fallbacks.items()
        self.assertEqual((op, count), ("symm_mem.fused_all_gather_scaled_matmul", RANKS))
        self.assertIn("fp8", reason)
        with self.assertRaisesRegex(ValueError, "fused_all_gather_scaled_matmul is not served for group"):
            st.run_threads(gather, RANKS, timeout_s=60, fallback=False)

    def test_a_weight_that_does_not_pay_is_not_turned(self):
        x, w = normal(1, 4, N), normal(2, N, K)
        st.enable_symm_mem()
        with mock.patch.object(_kernels, "pays", lambda *given: False), mock.patch.object(
                symmetric, "_fused_matmul_reduce_scatter_fallback", lambda *given: x[:1]):
            st.run_threads(lambda group: torch.ops.symm_mem.fused_matmul_reduce_scatter(
                x, w, "sum", 0, group.name), RANKS, timeout_s=60)
            self.scatter(normal(1, 4, K), normal(2, N, K))  # this one lies as it should
        self.assertEqual({op: count for op, count in st.report().served.items() if op.startswith("symm_mem")},
                         {f"symm_mem.{NAMES[1]}": RANKS})
        ((_, reason), count), = st.report().fallbacks.items()
        self.assertEqual(count, RANKS)
        self.assertIn("to turn it would take longer than what travels", reason)

    def test_when_it_pays(self):
        """Rows that travel, beside the size of the weight by which they do not."""
        class OnGpu:
            is_cuda = True

        self.assertTrue(_kernels.pays(OnGpu, 16384, 4096, 8))
        self.assertFalse(_kernels.pays(OnGpu, 4096, 4096, 8))
        self.assertFalse(_kernels.pays(OnGpu, 16384, 4096, 1))  # nothing travels

    def test_what_pytorch_does_is_not_counted_as_served(self):
        x, w = normal(1, 4, K, dtype=torch.float64), normal(2, N, K, dtype=torch.float64)
        st.enable_symm_mem()
        with mock.patch.object(symmetric, "_fused_matmul_reduce_scatter_fallback", lambda *given: x[:1]):
            self.assertEqual([tuple(y.shape) for y in self.scatter(x, w)], [(1, K)] * RANKS)
        self.assertFalse(st.report().served)
        ((op, reason), count), = st.report().fallbacks.items()
        self.assertEqual((op, count), ("symm_mem.fused_matmul_reduce_scatter", RANKS))
        self.assertIn("tensors are float64", reason)
        with self.assertRaisesRegex(ValueError, "symm_mem.fused_matmul_reduce_scatter is not served for group"):
            self.scatter(x, w, fallback=False)


if __name__ == "__main__":
    unittest.main()
