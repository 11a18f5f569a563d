"""parallelize() and layers look at what modules compute, and not at names alone."""

import copy
import unittest

from parallelized import HIDDEN, RANKS, WIDTH
from ranks import Numbers, normal, run

import torch
import torch.nn.functional as F
from torch import nn

import stretto.torch as st


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(HIDDEN, WIDTH, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.down_proj, self.act_fn = nn.Linear(WIDTH, HIDDEN, bias=False), nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Scaled(Mlp):
    """As Falcon-H1's is."""

    def forward(self, x):
        return self.down_proj(self.up_proj(x) * self.act_fn(self.gate_proj(x) * 0.7)) * 0.6


class Residual(Mlp):
    def forward(self, x):
        return x + super().forward(x * 2)


class Sparse(Mlp):
    """As Gemma 3n's is: only what is above the mean of all columns."""

    def forward(self, x):
        gate = self.gate_proj(x)
        gate = F.relu(gate - gate.mean(-1, keepdim=True))
        return self.down_proj(self.act_fn(gate) * self.up_proj(x))


class Dropped(Mlp):
    """In training alone."""

    def __init__(self, is_between):
        super().__init__()
        self.drop, self.is_between = nn.Dropout(0.9), is_between

    def forward(self, x):
        if not self.is_between:
            return self.drop(super().forward(x))
        return self.down_proj(self.drop(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))


class Asks(Mlp):
    """What no stand-in has."""

    def forward(self, x):
        return super().forward(x.to(self.gate_proj.weight.dtype)) + 0 * self.gate_proj.cuts["weight"].dim


class Interleaved(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(HIDDEN, 2 * WIDTH), nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x):
        both = self.gate_up_proj(x)
        return self.down_proj(F.silu(both[..., ::2]) * both[..., 1::2])


class Tripled(nn.Linear):
    def forward(self, x):
        return F.linear(x, 3 * self.weight, self.bias)


def with_linear(change):
    mlp = Mlp()
    mlp.up_proj = change(mlp.up_proj)
    return mlp


def hooked(linear):
    linear.register_forward_hook(lambda *call: 2 * call[2])
    return linear


def tripled(linear):
    linear.__class__ = Tripled
    return linear


def dispatched(linear):
    """As accelerate does."""
    linear.forward = lambda x: 2 * nn.Linear.forward(linear, x)
    return linear


class Forwards(Numbers):
    def dealt(self, mlp):
        """What was served; results are those of the whole model."""
        x, right = normal(1, 2, 6, HIDDEN, dtype=torch.float32), nn.Sequential(mlp).requires_grad_(False)
        models = [copy.deepcopy(right) for _ in range(RANKS)]
        for y in run(RANKS, lambda group: st.parallelize(models[group.rank], group)(x)):
            self.assert_close(y, right(x))
        return dict(st.report().served)

    def test_what_is_not_silu_of_gate_times_up_goes_linear_by_linear(self):
        self.assertEqual(self.dealt(Mlp()), {"mlp": RANKS})
        hooks = Mlp()
        hooks.register_forward_hook(lambda *call: 2 * call[2])
        for mlp in (Scaled(), Residual(), hooks):
            self.assertEqual(self.dealt(mlp), {"matmul_all_reduce": RANKS})

    def test_what_is_more_in_training_goes_linear_by_linear(self):
        for is_between in (False, True):
            torch.manual_seed(5)
            mlp, after = Dropped(is_between).eval(), torch.rand(3)
            torch.manual_seed(5)
            self.assertEqual(self.dealt(Dropped(is_between).eval()), {"matmul_all_reduce": RANKS})
            self.assertTrue(torch.equal(torch.rand(3), after))  # the generator of numbers is as it was
            self.assertFalse(mlp.drop.training)

    def test_weights_that_modules_share_stay_whole(self):
        mlp = Mlp()
        mlp.up_proj.weight = mlp.gate_proj.weight
        with self.assertLogs("stretto.torch", "WARNING"):
            self.assertEqual(self.dealt(mlp), {})
        self.assertIn("0 stays whole: its gate_proj.weight is a parameter of another module, too", str(st.report()))

    def test_columns_that_are_mixed_stay_whole(self):
        for mlp, names in ((Sparse(), "gate_proj, up_proj"), (Interleaved(), "gate_up_proj")):
            with self.assertLogs("stretto.torch", "WARNING"):
                self.assertEqual(self.dealt(mlp), {})
            self.assertIn(f"0 stays whole: its forward() mixes columns of {names}, of which a rank", str(st.report()))

    def test_what_cannot_be_tried_goes_linear_by_linear(self):
        models = [nn.Sequential(Asks()) for _ in range(RANKS)]
        run(RANKS, lambda group: st.parallelize(models[group.rank], group)(torch.ones(2, HIDDEN)))
        self.assertEqual(st.report().served, {"matmul_all_reduce": RANKS})

    def test_linears_that_do_more_stay_whole(self):
        for change, said in ((tripled, "it is a Tripled, whose forward() is not nn.Linear's"),
                             (hooked, "it has hooks or a forward() of its own"),
                             (dispatched, "it has hooks or a forward() of its own"),
                             (torch.nn.utils.parametrizations.weight_norm, "its parameters are computed of others")):
            with self.subTest(said), self.assertLogs("stretto.torch", "WARNING"):
                self.assertEqual(self.dealt(with_linear(change)), {})
                self.assertIn(f"0 stays whole: its up_proj is no plain linear: {said}", str(st.report()))

    def test_layers_are_made_of_plain_linears(self):
        def refused(linear):
            with self.assertRaises(ValueError) as caught:
                run(1, lambda group: st.ColumnParallelLinear.from_linear(linear, group))
            return str(caught.exception)

        self.assertEqual(refused(tripled(nn.Linear(8, 8))),
                         "ColumnParallelLinear.from_linear() takes a plain nn.Linear: it is a Tripled, whose forward() "
                         "is not nn.Linear's")
        self.assertIn("its weight has no shape yet", refused(nn.LazyLinear(8)))
        whole = nn.Linear(8, 8, bias=False)
        whole.weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
        self.assertIn("its weight is int8", refused(whole))


if __name__ == "__main__":
    unittest.main()
