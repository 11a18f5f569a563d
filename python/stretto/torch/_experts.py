"""Mixtures of experts: kernels of torch.ops.stretto.moe and of its gradient."""

import math

import torch
import torch.nn.functional as F

from . import _calls, _checks, _collectives, _columns, _serve
from ._kernels import put, target_of
from ._records import seen
from ._rows import Rows
from .groups import find, place


def check_experts(op, x, gate, up, down):
    _checks.matching(op, x, gate=gate, up=up, down=down)
    _checks.require(gate.dim() == 3 and gate.shape[2] == x.shape[-1], op,
                    f"gate is {_checks.shape_text(gate)}; [experts, F, {x.shape[-1]}] goes with x "
                    f"{_checks.shape_text(x)}")
    _checks.require(up.shape == gate.shape, op,
                    f"up is {_checks.shape_text(up)} and gate {_checks.shape_text(gate)}: they must be alike")
    experts, f, h = gate.shape
    _checks.require(tuple(down.shape) == (experts, h, f), op,
                    f"down is {_checks.shape_text(down)}; [{experts}, {h}, {f}] goes with gate "
                    f"{_checks.shape_text(gate)}")


def check(x, ids, weights, gate, up, down, op="moe"):
    check_experts(op, x, gate, up, down)
    _checks.require(_checks.are_whole(ids) and ids.dim() == x.dim() and ids.shape[:-1] == x.shape[:-1], op,
                    f"ids is {ids.dtype} {_checks.shape_text(ids)}; whole numbers [..., k] go with x "
                    f"{_checks.shape_text(x)}")
    _checks.require(weights.is_floating_point() and weights.shape == ids.shape, op,
                    f"weights is {weights.dtype} {_checks.shape_text(weights)}; numbers {_checks.shape_text(ids)} go "
                    "with ids")
    _checks.require(ids.device == x.device == weights.device, op,
                    f"ids is on {ids.device}, weights on {weights.device} and x on {x.device}")


def own_experts(total, rank, ranks):
    """The first of those that are dealt to a rank, and how many these are."""
    block = -(-total // ranks)
    return min(rank * block, total), _columns.own(total, block, rank)


def experts_of(gate, is_dealt, num_experts, rank, ranks):
    """How many there are, and the first of this rank's."""
    own = gate.shape[0]
    if not is_dealt:
        _checks.require(num_experts in (None, own), "moe",
                        f"num_experts is {num_experts}, and without expert_parallel every rank has a part of all "
                        f"experts, of which gate has {own}")
        return own, 0
    total = own * ranks if num_experts is None else num_experts
    first, count = own_experts(total, rank, ranks)
    _checks.require(own == count, "moe",
                    f"gate has {own} experts; of num_experts={num_experts} rank {rank} of {ranks} has {count}")
    return total, first


def tokens(op, x, rows, rank, ranks, are_dealt=True):
    """x [..., H] as rows of it, dealt to the ranks, or all of them on every rank."""
    if not are_dealt:
        _checks.require(rows is None, op, f"rows is {rows}, and with sequence_parallel=False every rank has all")
        ranks = 1
    own = math.prod(x.shape[:-1])
    many = Rows((own, x.shape[-1]), 0, own * ranks if rows is None else rows, ranks)
    _checks.require(rows is None or own == many.own(rank), op,
                    f"x has {own} tokens; of rows={rows} rank {rank} of {ranks} has {many.own(rank)}")
    return many


def by_torch(x, ids, weights, gate, up, down, first):
    """[t, h] in fp32 or wider: what experts `first` and on, which are these, add to each token's sum."""
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("moe: PyTorch's way to do it waits for the GPU, which no CUDA graph can hold; call it once "
                           "before the capture, and st.report() says whether Stretto serves it")
    y = x.new_zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))
    for expert in range(gate.shape[0]):
        token, choice = (ids == first + expert).nonzero(as_tuple=True)
        rows = x[token]
        made = F.linear(F.silu(F.linear(rows, gate[expert])) * F.linear(rows, up[expert]), down[expert])
        y = y.index_add(0, token, made.to(y.dtype) * weights[token, choice, None].to(y.dtype))
    return y


def _matrices(x, ids, weights):
    if weights.dtype not in (x.dtype, torch.float32):
        weights = weights.to(torch.promote_types(x.dtype, torch.float32))
    return [one.flatten(0, -2).contiguous() for one in (x, _calls.as_ids(ids), weights)]


def _everyone(group, many, *tensors):
    """All ranks' rows: only the last ones may be short, so what fills them up is behind all others."""
    if many.ranks == 1:
        return tensors
    return [_collectives.all_gather(group, many.flat(one, many.block))[:many.total] for one in tensors]


def _own_sum(group, many, tensor):
    """Of the sum over ranks the own rows, or all of them where every rank has all."""
    if group.ranks == 1:
        return tensor
    if many.ranks == 1:
        return _collectives.all_reduce(group, tensor)
    whole = many.flat(tensor, many.block * group.ranks)
    return _collectives.reduce_scatter(group, whole)[:many.own(group.rank)]


def _tokens_of_moe(x, expert_parallel, rows, sequence_parallel, rank, ranks):
    _checks.require(sequence_parallel or not expert_parallel or ranks == 1, "moe",
                    "with sequence_parallel=False every rank has all tokens, of which expert_parallel takes own ones: "
                    "cut every expert, or deal the tokens")
    return tokens("moe", x, rows, rank, ranks, sequence_parallel)


@seen
def moe(x, ids, weights, gate, up, down, group_name, expert_parallel=False, rows=None, sequence_parallel=True,
        num_experts=None, out=None):
    group = find(group_name)
    check(x, ids, weights, gate, up, down)
    many = _tokens_of_moe(x, expert_parallel, rows, sequence_parallel, group.rank, group.ranks)
    experts, first = experts_of(gate, expert_parallel, num_experts, group.rank, group.ranks)
    target = target_of("moe", out, x.shape, x=x, ids=ids, weights=weights, gate=gate, up=up, down=down)
    if many.total == 0 or x.shape[-1] == 0:
        return put(target, x.new_empty(x.shape))
    own = _matrices(x, ids, weights)

    def fall_back():
        y = by_torch(*_everyone(group, many, *own), gate, up, down, first)
        return (_own_sum(group, many, y).to(x.dtype),)

    call = _calls.moe(many.total, *own, gate.contiguous(), up.contiguous(), down.contiguous(),
                      experts, expert_parallel and sequence_parallel, group.ranks, sequence_parallel)
    y, = _serve.run(call, group, fall_back, targets={"y": target},
                    given={"x": x, "ids": ids, "weights": weights, "wg": gate, "wu": up, "wd": down})
    return put(target, y.reshape(x.shape))


def gradients(function, tensors, dy):
    """Of function(*tensors), by autograd. The caller is a kernel, and a dispatcher with modes (one that counts
    operations, say) leaves autograd out for all that kernels do.
    """
    leaves = [one.detach().requires_grad_() for one in tensors]
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False), torch.enable_grad():
        y = function(*leaves)
        if not y.requires_grad:  # there are no experts here
            return [torch.zeros_like(one) for one in leaves]
        return torch.autograd.grad(y, leaves, dy.to(y.dtype))


def moe_backward(dy, x, ids, weights, gate, up, down, group_name, expert_parallel=False, rows=None,
                 sequence_parallel=True, num_experts=None):
    """By PyTorch: all tokens are gathered again, and their gradients scattered; where every rank has all of them, and
    the same gradient of each, what ranks make of these is added up.
    """
    group = find(group_name)
    many = tokens("moe", x, rows, group.rank, group.ranks, sequence_parallel)
    if many.total == 0 or x.shape[-1] == 0:
        return tuple(torch.zeros_like(one) for one in (x, weights, gate, up, down))
    own_x, own_ids, own_weights = _matrices(x, ids, weights)
    whole_x, whole_ids, whole_weights, whole_dy = _everyone(
        group, many, own_x, own_ids, own_weights.to(torch.promote_types(weights.dtype, torch.float32)),
        dy.flatten(0, -2).contiguous())
    _, first = experts_of(gate, expert_parallel, num_experts, group.rank, group.ranks)
    found = gradients(lambda x, *rest: by_torch(x, whole_ids, *rest, first),
                      (whole_x, whole_weights, gate, up, down), whole_dy)
    dx, dweights = (_own_sum(group, many, one) for one in found[:2])
    return (dx.reshape(x.shape), dweights.reshape(weights.shape).to(weights.dtype),
            *(one.contiguous() for one in found[2:]))


def fake_moe(x, ids, weights, gate, up, down, group_name, expert_parallel=False, rows=None, sequence_parallel=True,
             num_experts=None):
    check(x, ids, weights, gate, up, down)
    _tokens_of_moe(x, expert_parallel, rows, sequence_parallel, *place(group_name))
    experts_of(gate, expert_parallel, num_experts, *place(group_name))
    return x.new_empty(x.shape)


def fake_moe_backward(dy, x, ids, weights, gate, up, down, group_name, expert_parallel=False, rows=None,
                      sequence_parallel=True, num_experts=None):
    return tuple(one.new_empty(one.shape) for one in (x, weights, gate, up, down))
