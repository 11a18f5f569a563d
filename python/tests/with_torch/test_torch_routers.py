"""Experts and the router that chooses them, in one plan: numbers, choices and gradients, by the emulator and by
PyTorch.
"""

import itertools
import unittest

from ranks import Numbers, normal, run

import test_torch_experts

import torch

import stretto.torch as st

T, H, WIDTH, EXPERTS, K = 13, 32, 96, 12, 3
KINDS = {"softmax": {}, "softmax of all": {"normalise": False, "scale": 16.0, "groups": 4, "best": 2},
         "sigmoid": {"scores": "sigmoid", "normalise": False},
         "deepseek": {"scores": "sigmoid", "is_biased": True, "groups": 4, "best": 2, "scale": 2.5}}


def given(dtype=torch.bfloat16, tokens=T):
    """x, router, gate, up, down of all ranks."""
    return [normal(1, tokens, H, dtype=dtype), normal(2, EXPERTS, H, dtype=dtype) / 4,
            normal(3, EXPERTS, WIDTH, H, dtype=dtype) / 5, normal(4, EXPERTS, WIDTH, H, dtype=dtype) / 5,
            normal(5, EXPERTS, H, WIDTH, dtype=dtype) / 8]


def arguments(kind):
    """Of moe_with_router(), and the bias."""
    more = dict(KINDS[kind])
    bias = normal(9, EXPERTS, dtype=torch.float32) / 4 if more.pop("is_biased", False) else None
    return {**more, "bias": bias}


def part(tensors, rank, ranks, dealt):
    """A rank's: a block of tokens, the last ones fewer or none, and the router whole."""
    block, cuts = -(-len(tensors[0]) // ranks), (0, 0, 0) if dealt else (1, 1, 2)
    return [tensors[0][block * rank:][:block].clone(), tensors[1].clone(),
            *(one.chunk(ranks, cut)[rank].contiguous() for one, cut in zip(tensors[2:], cuts))]


def chosen(scores, bias, groups, best):
    """Of one token, as lists say it."""
    keys = scores.tolist() if bias is None else (scores.sigmoid() + bias).tolist()
    size = EXPERTS // groups
    own = [sorted(keys[g * size:(g + 1) * size], reverse=True)[:1 if bias is None else 2] for g in range(groups)]
    kept = sorted(range(groups), key=lambda g: -sum(own[g]))[:best]
    return sorted((e for e in range(EXPERTS) if e // size in kept), key=lambda e: -keys[e])[:K]


def reference(x, router, gate, up, down, bias=None, scores="softmax", normalise=True, scale=1.0, groups=1, best=1):
    """y, ids, weights: with autograd, a token at a time."""
    found = x @ router.t()
    with torch.no_grad():
        ids = torch.tensor([chosen(one, bias, groups, best) for one in found]).view(-1, K)
    values = found.exp() if scores == "softmax" else 1 / (1 + (-found).exp())
    weights = values.gather(1, ids)
    if normalise:
        weights = weights / weights.sum(1, keepdim=True)
    elif scores == "softmax":
        weights = weights / values.sum(1, keepdim=True)
    weights = weights * scale
    return test_torch_experts.Experts.right(x, ids, weights, gate, up, down), ids, weights


class Routers(Numbers):
    def test_every_kind_by_any_ranks(self):
        for kind, ranks, dealt, dtype in itertools.product(KINDS, (1, 2, 3), (True, False),
                                                           (torch.bfloat16, torch.float16, torch.float32)):
            if dtype is not torch.bfloat16 and ranks == 3:
                continue
            with self.subTest(kind=kind, ranks=ranks, dealt=dealt, dtype=dtype):
                tensors, more = given(dtype), arguments(kind)
                found = run(ranks, lambda g: st.moe_with_router(
                    *part(tensors, g.rank, ranks, dealt), K, g, expert_parallel=dealt, rows=T, **more))
                self.assertEqual(st.report().served, {"moe_with_router": ranks})
                y, ids, weights = (torch.cat(one) for one in zip(*found))
                self.assertEqual((ids.dtype, weights.dtype), (torch.int32, torch.float32))
                right = reference(*(one.double() for one in tensors), **more)
                self.assertTrue(torch.equal(ids.long(), right[1]))
                self.assert_close(y, right[0])
                self.assert_close(weights, right[2])

    def step(self, group, tensors, kind, dealt, target):
        """Results, and gradients of a loss of sums and of one of weights."""
        ranks, bias = group.ranks, arguments(kind)["bias"]
        mine = [one.requires_grad_() for one in part(tensors, group.rank, ranks, dealt)]
        more = {**arguments(kind), "bias": bias if bias is None else bias.requires_grad_()}
        y, ids, weights = st.moe_with_router(*mine, K, group, expert_parallel=dealt, rows=len(tensors[0]), **more)
        self.assertEqual((y.requires_grad, ids.requires_grad, weights.requires_grad), (True, False, True))
        own, of_weights = (part([one, *tensors[1:]], group.rank, ranks, dealt)[0] for one in target)
        ((y.double() * own).sum() + (weights.double() * of_weights).sum()).backward()
        self.assertIsNone(None if bias is None else bias.grad)
        return [y.detach(), ids, weights.detach(), *(one.grad for one in mine)]

    def test_gradients_with_tokens_that_ranks_do_not_divide(self):
        """2 tokens leave the third rank without any. By the plan, and by PyTorch."""
        for kind, (ranks, tokens), dealt, dtype in itertools.product(
                KINDS, ((1, 5), (2, 5), (3, 7), (3, 2)), (True, False), (torch.bfloat16, torch.float64)):
            with self.subTest(kind=kind, ranks=ranks, tokens=tokens, dealt=dealt, dtype=dtype):
                tensors = [one.to(dtype) for one in given(tokens=tokens)]
                target = normal(7, tokens, H).double(), normal(8, tokens, K).double()
                wide = [one.to(torch.float64, copy=True).requires_grad_() for one in tensors]
                y, ids, weights = reference(*wide, **arguments(kind))
                ((y * target[0]).sum() + (weights * target[1]).sum()).backward()
                is_served = dtype is torch.bfloat16
                found = run(ranks, lambda g: self.step(g, tensors, kind, dealt, target), fallback=not is_served)
                self.assertEqual(st.report().served, {"moe_with_router": ranks} if is_served else {})
                for got, right in zip(map(torch.cat, zip(*(one[:3] for one in found))), (y, ids, weights)):
                    self.assert_close(got, right.detach(), dtype)
                rights = [one.grad for one in wide]
                for rank, (_, _, _, *grads) in enumerate(found):
                    for got, right in zip(grads, part(rights, rank, ranks, dealt)):
                        self.assert_close(got, right, dtype)

    def test_weights_alone_may_have_a_loss(self):
        tensors = given()

        def call(group):
            x, router, *rest = [one.requires_grad_() for one in part(tensors, 0, 1, True)]
            _, _, weights = st.moe_with_router(x, router, *rest, K, group)
            weights.square().sum().backward()
            self.assertTrue(x.grad.any() and router.grad.any())
            self.assertFalse(any(one.grad.any() for one in rest))
        run(1, call)

    def test_tokens_with_nans_choose_nothing(self):
        for ranks, dtype, kind in ((1, torch.bfloat16, "softmax"), (2, torch.bfloat16, "deepseek"),
                                   (2, torch.float64, "deepseek"), (2, torch.float64, "softmax of all")):
            with self.subTest(ranks=ranks, dtype=dtype, kind=kind):
                tensors, dead = [one.to(dtype) for one in given()], [2, 8, 12]
                tensors[0][dead, 5] = float("nan")
                live = [token for token in range(T) if token not in dead]
                wide = [one.to(torch.float64, copy=True).requires_grad_() for one in (tensors[0][live], *tensors[1:])]
                right = reference(*wide, **arguments(kind))
                right[0].sum().backward()
                target = torch.ones(T, H).double(), torch.zeros(T, K).double()
                found = run(ranks, lambda g: self.step(g, tensors, kind, True, target), dtype is torch.float64)
                y, ids, weights, dx = (torch.cat(one) for one in list(zip(*found))[:4])
                self.assertEqual(set(ids[dead].flatten().tolist()), {-2})
                self.assertFalse(y[dead].any() or weights[dead].any() or dx[dead].any())
                self.assertTrue(torch.equal(ids[live].long(), right[1]))
                self.assert_close(y[live], right[0].detach(), dtype)
                self.assert_close(dx[live], wide[0].grad, dtype)
                for one in found:
                    self.assert_close(one[4], wide[1].grad, dtype)

    def test_infinite_biases(self):
        """What shuts an expert out leaves it behind the others of its group, by the plan and by PyTorch."""
        inf = float("inf")
        for bias, ids in (([0] * 9 + [90, -inf, 80], [9, 11, 10]), ([-inf] * 12, [0, 1, 2]),
                          # A sum of both infinities is as good as the better one.
                          ([0, 0, 0, -inf, inf, 0, -inf, inf, -inf, 0, 0, 0], [4, 5, 3]),
                          ([-inf, -inf, inf, 0, 0, inf, inf, inf, -inf, 0, 0, 0], [2, 0, 1])):
            more = {"scores": "sigmoid", "bias": torch.tensor(bias), "groups": 4, "best": 1}
            for dtype in (torch.bfloat16, torch.float64):
                tensors = [one.to(dtype) for one in given()]
                with self.subTest(bias=bias, dtype=dtype):
                    (_, found, _), = run(1, lambda g: st.moe_with_router(*tensors, K, g, **more),
                                         dtype is torch.float64)
                    self.assertEqual(set(map(tuple, found.tolist())), {tuple(ids)})

    def test_of_equal_scores_the_lower_expert_is_first(self):
        for dtype, more in itertools.product((torch.bfloat16, torch.float64), (
                {}, {"scores": "sigmoid", "bias": torch.zeros(EXPERTS), "groups": 4, "best": 3})):
            tensors = [one.to(dtype) for one in given()]
            tensors[1] = torch.zeros_like(tensors[1])
            tensors[1][7] = tensors[0][0] / 8  # a group's best, and the first token's

            def call(group):
                return st.moe_with_router(*tensors, K, group, **more)
            (_, ids, weights), = run(1, call, dtype is torch.float64)
            with torch.no_grad():
                right = reference(*(one.double() for one in tensors), **more)
            self.assertEqual(ids[0].tolist(), [7, 0, 1])
            self.assertTrue(torch.equal(ids.long(), right[1]))
            self.assert_close(weights, right[2], torch.float32)

    def test_what_is_not_served_goes_in_parts(self):
        """Columns that are no multiple of 16 bytes are not served as experts either; a type is neither's."""
        x, router, gate, up, down = given()
        narrow = [x[:, :9].contiguous(), router[:, :9].contiguous(), gate[..., :9].contiguous(),
                  up[..., :9].contiguous(), down[:, :9].contiguous()]
        (y, ids, weights), = run(1, lambda g: st.moe_with_router(*narrow, K, g), True)
        self.assertRegex(str(st.report()), "1 x moe_with_router: in parts: moe-tp-softmax-1.0: .*rows of x have 9 columns")
        right = reference(*(one.double() for one in narrow))
        self.assertTrue(torch.equal(ids.long(), right[1]))
        self.assert_close(y, right[0])
        self.assert_close(weights, right[2])

    def test_results_are_written_where_the_caller_says(self):
        def call(group):
            mine = part(given(tokens=12), group.rank, 2, True)
            out = torch.full((6, H), float("nan")).bfloat16(), torch.full((6, K), -9).int(), torch.full((6, K), -9.0)
            made = st.moe_with_router(*mine, K, group, expert_parallel=True, out=out)
            for one, other, right in zip(made, out, st.moe_with_router(*mine, K, group, expert_parallel=True)):
                self.assertIs(one, other)
                self.assertTrue(torch.equal(one, right))
            y, ids, weights = out
            for bad, message in (((y, ids.long(), weights), r"out\[1\] is torch.int64 on cpu; torch.int32 on cpu is"),
                                 ((y, ids, weights[:3]), r"out\[2\] is \[3, 3\]; \[6, 3\] is what comes"),
                                 ((mine[0], ids, weights), r"out\[0\] overlaps x"),
                                 ((y, weights.view(torch.int32), weights), r"out\[2\] overlaps out\[1\]"),
                                 ((y, ids), "out is 2; a tuple of 3 tensors was expected, for y, ids and weights")):
                with self.assertRaisesRegex(ValueError, f"^moe_with_router: {message}"):
                    st.moe_with_router(*mine, K, group, expert_parallel=True, out=bad)
        run(2, call)

    def test_leading_dimensions_and_no_tokens(self):
        tensors = given(tokens=12)

        def call(group, *leading):
            mine = part(tensors, group.rank, 2, True)
            y, ids, weights = st.moe_with_router(mine[0].view(*leading, H), *mine[1:], K, group, expert_parallel=True)
            self.assertEqual((y.shape[:-1], ids.shape, weights.shape), ((*leading,), (*leading, K), (*leading, K)))
            return y.flatten(0, -2)
        self.assertTrue(torch.equal(*(torch.cat(run(2, lambda g: call(g, *one))) for one in ((6,), (2, 3)))))

        def nothing(group):
            x, *rest = [one.requires_grad_() for one in part(given(tokens=0), group.rank, 2, True)]
            y, ids, weights = st.moe_with_router(x, *rest, K, group, expert_parallel=True)
            self.assertEqual([tuple(one.shape) for one in (y, ids, weights)], [(0, H), (0, K), (0, K)])
            y.sum().backward()
            self.assertFalse(any(one.grad.any() for one in rest))
        run(2, nothing)

    def test_compile_and_autocast(self):
        more = arguments("deepseek")

        def call(group):
            mine = [one.requires_grad_() for one in part(given(), 0, 1, True)]
            right = st.moe_with_router(*mine, K, group, **more)

            def function(*tensors):
                y, ids, weights = st.moe_with_router(*tensors, K, group.name, **more)
                return y * 2, ids, weights.sum()
            for dynamic in (False, True):
                torch._dynamo.reset()
                y, ids, total = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")(*mine)
                self.assertTrue(torch.equal(y, right[0] * 2) and torch.equal(ids, right[1]))
                self.assert_close(total.detach(), right[2].sum().detach())
                found = torch.autograd.grad(y.float().sum() + total, mine)
                expected = torch.autograd.grad((right[0] * 2).float().sum() + right[2].sum(), mine, retain_graph=True)
                for one, other in zip(found, expected):
                    self.assertTrue(torch.equal(one, other))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = st.moe_with_router(*(one.float() for one in mine), K, group, **more)
            for one, other in zip(cast, right):
                self.assertTrue(torch.equal(one, other))
        run(1, call)
        with st.Threads(1, timeout_s=60) as threads:
            mine, name = part(given(), 0, 1, True), threads.groups[0].name
            for bias, rule in ((None, (K,)), (more["bias"], (K, "sigmoid", True, 2.5, 4, 2, True, T))):
                torch.library.opcheck(torch.ops.stretto.moe_with_router.default, (
                    *(one.clone().requires_grad_() for one in mine), bias, name, *rule))
            y, ids, weights = st.moe_with_router(*mine, K, name)
            torch.library.opcheck(torch.ops.stretto.moe_with_router_backward.default,
                                  (y, weights, *mine, ids, weights, name))

    def test_what_is_refused(self):
        x, router, gate, up, down = given()
        bias = torch.zeros(EXPERTS)
        for tensors, k, more, message in (
                ((x, router[:5], gate, up, down), K, {}, r"router is \[5, 32\]; \[12, 32\] goes with 12 experts and x"),
                ((x, router.float(), gate, up, down), K, {}, "router is torch.float32 and x is torch.bfloat16"),
                ((x, router, gate, up[:2], down), K, {}, "up is .* they must be alike"),
                (None, 0, {}, "each token chooses 0 of 12 experts: take 1 to 12"),
                (None, 7, {"groups": 4, "best": 2}, "each token chooses 7 of 6 experts: take 1 to 6"),
                (None, K, {"groups": 5}, "groups is 5; a divisor of 12 experts, 32 at most, was expected"),
                (None, K, {"groups": 4, "best": 5}, "best is 5 of 4 groups: take 1 to all"),
                (None, K, {"scores": "relu"}, "scores is 'relu'; it is softmax or sigmoid"),
                (None, K, {"scale": 0.0}, "scale is 0.0; a number above 0 and up to 1e9 was expected"),
                (None, K, {"bias": bias}, "a bias goes with scores='sigmoid', to which it is added; they are 'softmax'"),
                (None, K, {"bias": bias[:3], "scores": "sigmoid"},
                 r"bias is torch.float32 \[3\]; numbers \[12\] go with 12 experts"),
                (None, K, {"rows": 12}, "x has 13 tokens; of rows=12 rank 0 of 1 has 12")):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, f"^moe_with_router: {message}"):
                run(1, lambda group: st.moe_with_router(*(tensors or (x, router, gate, up, down)), k, group, **more))
        with self.assertRaisesRegex(ValueError, "ranks disagree at moe_with_router: k is 3 on rank 0, 2 on rank 1"):
            run(2, lambda g: st.moe_with_router(*part(given(tokens=12), g.rank, 2, True), K - g.rank, g,
                                                expert_parallel=True))


if __name__ == "__main__":
    unittest.main()
