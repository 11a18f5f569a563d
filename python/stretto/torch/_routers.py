"""Experts and the router that chooses them, in one plan: kernels of torch.ops.stretto.moe_with_router and of its
gradient.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from . import _calls, _checks, _collectives, _experts, _serve
from ._kernels import put, target_of
from ._records import seen
from .groups import find, place

OP = "moe_with_router"
MOST_GROUPS = 32  # of experts, as include/stretto/device/top_k.h has bits for


class Rule(NamedTuple):
    """How a token chooses by its scores, and what its choices weigh: as stages of a graph (docs/graph-format.md)."""

    k: int
    scores: str
    normalise: bool
    scale: float
    groups: int
    best: int


def check(x, router, gate, up, down, bias, rule, rank, ranks):
    """`ranks`: that experts are dealt to, of which this is one."""
    _experts.check_experts(OP, x, gate, up, down)
    _checks.matching(OP, x, router=router)
    experts = router.shape[0] if ranks > 1 else gate.shape[0]
    _checks.require(tuple(router.shape) == (experts, x.shape[-1]), OP,
                    f"router is {_checks.shape_text(router)}; [{experts}, {x.shape[-1]}] goes with {experts} experts "
                    f"and x {_checks.shape_text(x)}")
    _, own = _experts.own_experts(experts, rank, ranks)
    _checks.require(gate.shape[0] == own, OP,
                    f"gate has {gate.shape[0]} experts; of {experts}, as router has, rank {rank} of {ranks} has {own}")
    _checks.require(rule.scores in ("softmax", "sigmoid"), OP,
                    f"scores is {rule.scores!r}; it is softmax or sigmoid")
    if bias is not None:
        _checks.require(bias.is_floating_point() and tuple(bias.shape) == (experts,), OP,
                        f"bias is {bias.dtype} {_checks.shape_text(bias)}; numbers [{experts}] go with {experts} "
                        "experts")
        _checks.require(bias.device == x.device, OP, f"bias is on {bias.device} and x on {x.device}")
        _checks.require(rule.scores == "sigmoid", OP,
                        f"a bias goes with scores='sigmoid', to which it is added; they are {rule.scores!r}")
    _checks.require(0 < rule.scale <= 1e9, OP, f"scale is {rule.scale}; a number above 0 and up to 1e9 was expected")
    _checks.require(1 <= rule.groups <= MOST_GROUPS and experts % rule.groups == 0, OP,
                    f"groups is {rule.groups}; a divisor of {experts} experts, {MOST_GROUPS} at most, was expected")
    _checks.require(1 <= rule.best <= rule.groups, OP, f"best is {rule.best} of {rule.groups} groups: take 1 to all")
    left = experts // rule.groups * rule.best
    _checks.require(1 <= rule.k <= left, OP, f"each token chooses {rule.k} of {left} experts: take 1 to {left}")


def scores_of(x, router):
    """[t, experts], of tokens [t, H], in fp32 or wider."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return F.linear(x.to(wide), router.to(wide))


def choose(scores, bias, rule):
    """Ids [t, k] by PyTorch: best first, the lower one of equals; -2 where a score is no number. A bias of -inf leaves
    an expert behind all others of the groups that are left.
    """
    keys = scores if bias is None else scores.sigmoid() + bias.to(scores.dtype)
    has_nan = keys.isnan().any(-1, keepdim=True)
    if rule.best < rule.groups:
        parts = keys.unflatten(-1, (rule.groups, -1))
        best = parts.topk(1 if bias is None else min(2, parts.shape[-1]), -1).values
        sums = best.sum(-1)
        sums = torch.where(sums.isnan(), best[..., 0], sums)  # infinities of both signs have no sum
        is_left = torch.zeros_like(sums, dtype=torch.bool).scatter(-1, _best_first(sums)[:, :rule.best], True)
        keys = parts.masked_fill(~is_left.unsqueeze(-1), float("nan")).flatten(1)
    return _best_first(keys)[:, :rule.k].masked_fill(has_nan, -2).int()


def _best_first(keys):
    """Numbers by their keys, the lower one of equals first. NaN is behind -inf, since PyTorch sorts it to the end."""
    return keys.neg().sort(stable=True, dim=-1).indices


def weigh(scores, ids, rule):
    """Weights [t, k] of chosen experts by PyTorch; 0 of what is no expert's."""
    at = ids.clamp(min=0).long()
    if rule.scores == "sigmoid":
        parts = scores.gather(-1, at).sigmoid()
        if rule.normalise:
            parts = parts / parts.sum(-1, keepdim=True).clamp(min=1e-20)
    elif rule.normalise:
        parts = scores.gather(-1, at).softmax(-1)
    else:
        parts = scores.softmax(-1).gather(-1, at)
    return (parts * rule.scale).masked_fill(ids < 0, 0)


def results(x, rule):
    """Their shapes and types."""
    choices = *x.shape[:-1], rule.k
    return {"y": (x.shape, x.dtype), "ids": (choices, torch.int32),
            "weights": (choices, torch.promote_types(x.dtype, torch.float32))}


@seen
def moe_with_router(x, router, gate, up, down, bias, group_name, k, scores="softmax", normalise=True, scale=1.0,
                    groups=1, best=1, expert_parallel=False, rows=None, out=None, ids=None, weights=None):
    group, rule = find(group_name), Rule(k, scores, normalise, scale, groups, best)
    check(x, router, gate, up, down, bias, rule, *((group.rank, group.ranks) if expert_parallel else (0, 1)))
    many = _experts.tokens(OP, x, rows, group.rank, group.ranks)
    wanted, given = results(x, rule), {"router": router, "gate": gate, "up": up, "down": down, "bias": bias}
    targets = {}
    for number, ((name, (shape, dtype)), one) in enumerate(zip(wanted.items(), (out, ids, weights))):
        others = {f"out[{index}]": other for index, other in enumerate(targets.values())}
        targets[name] = target_of(OP, one, shape, dtype, f"out[{number}]", x=x, **given, **others)
    if many.total == 0 or x.shape[-1] == 0:
        return tuple(put(targets[name], x.new_empty(shape, dtype=dtype)) for name, (shape, dtype) in wanted.items())
    own = x.flatten(0, -2).contiguous()

    def in_parts():
        found = scores_of(own, router)
        chosen = choose(found, bias, rule)
        weighed = weigh(found, chosen, rule)
        y = _experts.moe(own, chosen, weighed, gate, up, down, group_name, expert_parallel, many.total,
                         num_experts=router.shape[0] if expert_parallel else None)
        return y, chosen, weighed

    call = _calls.moe_with_router(many.total, own, router.contiguous(), gate.contiguous(), up.contiguous(),
                                  down.contiguous(), bias, rule, expert_parallel, group.ranks)
    made = _serve.run(call, group, in_parts, is_in_parts=True, targets=targets,
                      given={"x": x, "wr": router, "wg": gate, "wu": up, "wd": down})
    return tuple(put(targets[name], one.reshape(shape)) for (name, (shape, _)), one in zip(wanted.items(), made))


def moe_with_router_backward(dy, dweights, x, router, gate, up, down, ids, weights, group_name, scores="softmax",
                             normalise=True, scale=1.0, expert_parallel=False, rows=None):
    """Of x, the router and the experts. Scores are computed again, at the ids that were chosen; a token that chose
    nothing, since it has a NaN, has a gradient of zeros.
    """
    group, rule = find(group_name), Rule(ids.shape[-1], scores, normalise, scale, 1, 1)
    dx, dweighed, *dexperts = _experts.moe_backward(dy, x, ids, weights, gate, up, down, group_name, expert_parallel,
                                                    rows, num_experts=router.shape[0] if expert_parallel else None)
    chosen, wide = ids.flatten(0, -2), weights.dtype
    tokens = x.flatten(0, -2).to(wide).masked_fill(chosen[:, :1] < 0, 0)
    of_x, of_router = _experts.gradients(lambda *both: weigh(scores_of(*both), chosen, rule),
                                         (tokens, router.to(wide)), (dweighed + dweights).flatten(0, -2))
    if group.ranks > 1:
        of_router = _collectives.all_reduce(group, of_router)
    return (dx.to(wide) + of_x.reshape(x.shape)).to(x.dtype), of_router.to(router.dtype), *dexperts


def fake_moe_with_router(x, router, gate, up, down, bias, group_name, k, scores="softmax", normalise=True, scale=1.0,
                         groups=1, best=1, expert_parallel=False, rows=None):
    rank, ranks = place(group_name)
    rule = Rule(k, scores, normalise, scale, groups, best)
    check(x, router, gate, up, down, bias, rule, *((rank, ranks) if expert_parallel else (0, 1)))
    _experts.tokens(OP, x, rows, rank, ranks)
    return tuple(x.new_empty(shape, dtype=dtype) for shape, dtype in results(x, rule).values())


def fake_moe_with_router_backward(dy, dweights, x, router, gate, up, down, ids, weights, group_name,
                                  scores="softmax", normalise=True, scale=1.0, expert_parallel=False, rows=None):
    return tuple(one.new_empty(one.shape) for one in (x, router, gate, up, down))
