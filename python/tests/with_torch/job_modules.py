"""Layers, styles of parallelize_module(), and whole models."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import stretto.torch as st

from job_common import FF, H, close, normal


class Model(nn.Module):
    """As Hugging Face's are: names and shapes, and nothing else."""

    class Attention(nn.Module):
        def __init__(self, heads=4, kv_heads=2, head_dim=8):
            super().__init__()
            self.head_dim, self.num_heads = head_dim, heads
            self.q_proj = nn.Linear(H, heads * head_dim)
            self.k_proj, self.v_proj = nn.Linear(H, kv_heads * head_dim), nn.Linear(H, kv_heads * head_dim)
            self.o_proj = nn.Linear(heads * head_dim, H, bias=False)

        def forward(self, x):
            q, k, v = (one(x).view(*x.shape[:-1], -1, self.head_dim).transpose(-2, -3)
                       for one in (self.q_proj, self.k_proj, self.v_proj))
            k, v = (one.repeat_interleave(q.shape[-3] // one.shape[-3], -3) for one in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o_proj(y.transpose(-2, -3).flatten(-2))

    class Mlp(nn.Module):
        def __init__(self, act_fn):
            super().__init__()
            self.gate_proj, self.up_proj = nn.Linear(H, FF, bias=False), nn.Linear(H, FF, bias=False)
            self.down_proj, self.act_fn = nn.Linear(FF, H, bias=False), act_fn

        def forward(self, x):
            return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

    def __init__(self, **attention):
        super().__init__()
        self.self_attn, self.mlp, self.other = (
            self.Attention(**attention), self.Mlp(nn.SiLU()), self.Mlp(nn.GELU()))

    def forward(self, x):
        x = x + self.self_attn(x)
        return x + self.mlp(x) + self.other(x)


def model_of(**attention):
    torch.manual_seed(5)
    return Model(**attention).to(torch.bfloat16)


def check_parallelize(mesh):
    x = normal(1, 2, 6, H)
    whole, dealt = model_of(), st.parallelize(model_of(), mesh["tp"])
    assert dealt.self_attn.q_proj.weight.shape == (16, H) and dealt.self_attn.num_heads == 2
    assert list(dict(whole.named_parameters())) == list(dict(dealt.named_parameters()))
    st.reset_report()
    close(dealt(x), whole(x), 3e-2)
    assert st.report().served["mlp"] == 1 and not st.report().fallbacks, st.report()
    dealt(x).float().square().sum().backward()
    whole(x).float().square().sum().backward()
    mine = slice(dist.get_rank() % 2 * 16, dist.get_rank() % 2 * 16 + 16)
    close(dealt.self_attn.q_proj.weight.grad, whole.self_attn.q_proj.weight.grad[mine], 5e-2)
    close(dealt.mlp.down_proj.weight.grad,
          whole.mlp.down_proj.weight.grad.chunk(2, 1)[dist.get_rank() % 2], 5e-2)


def check_parallelize_gives_ranks_the_same_heads_of_keys(mesh):
    x = normal(1, 2, 6, H)
    whole, dealt = model_of(kv_heads=1), st.parallelize(model_of(kv_heads=1), mesh["tp"])
    whole(x).float().square().sum().backward()
    for model in (dealt, torch.compile(dealt, fullgraph=True, backend="aot_eager")):
        dealt.zero_grad()
        model(x).float().square().sum().backward()
        for name in ("k_proj", "v_proj"):
            got, right = (getattr(one.self_attn, name).weight.grad for one in (dealt, whole))
            close(got / right.abs().max(), right / right.abs().max(), 5e-2)


class Language(nn.Module):
    """Rows to logits, of which an embedding shares the weight."""

    def __init__(self):
        super().__init__()
        self.embed_tokens, self.model = nn.Embedding(24, H), Model(kv_heads=2)
        self.lm_head = nn.Linear(H, 24, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, ids):
        return self.lm_head(self.model(self.embed_tokens(ids)))


def check_vocabularies(mesh):
    """Logits that are gathered, compiled, and those that stay cut, with PyTorch's loss of such."""
    try:
        from torch.distributed.tensor import DTensor, Shard
        from torch.distributed.tensor.parallel import loss_parallel
    except ImportError:  # other names in PyTorch before 2.5
        return
    ids, labels = (torch.randint(24, (2, 6), generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))

    def made(how=None):
        torch.manual_seed(5)
        return st.parallelize(Language(), mesh["tp"], vocabulary=how) if how else Language()

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    whole, gathered, cut = made(), made("gathered"), made("cut")
    loss_of(whole(ids)).backward()
    right = whole.lm_head.weight.grad.chunk(2)[dist.get_rank() % 2]
    for model in (gathered, torch.compile(gathered, fullgraph=True, backend="aot_eager")):
        gathered.zero_grad()
        close(model(ids), whole(ids), 1e-5)
        loss_of(model(ids)).backward()
        close(gathered.lm_head.weight.grad, right, 1e-4)
    logits = DTensor.from_local(cut(ids), mesh["tp"], [Shard(-1)], run_check=False)
    with loss_parallel():
        loss = loss_of(logits)
        loss.backward()
    close(loss.full_tensor(), loss_of(whole(ids)), 1e-5)
    close(cut.lm_head.weight.grad, right, 1e-4)


def check_parallelize_says_what_stays(mesh):
    st.reset_report()
    x = normal(1, 2, 6, H)
    heads = {"heads": 1, "kv_heads": 1}
    whole, dealt = model_of(**heads), st.parallelize(model_of(**heads), mesh["tp"])
    close(dealt(x), whole(x), 3e-2)
    assert isinstance(dealt.self_attn.q_proj, nn.Linear)
    assert "its 1 heads of queries, 1 of each head of keys, are too few for 2 ranks" in str(st.report()), st.report()
    try:
        st.parallelize(nn.Linear(2, 2), mesh["tp"])
        raise AssertionError("nothing to deal")
    except ValueError as error:
        assert "Linear has no module with linears of names" in str(error), error


def check_fsdp_beside(mesh):
    """Over the ranks that have the same parts: gradients, their norm, and whole checkpoints."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # PyTorch before 2.6
        return
    x, replica = normal(1, 2, 6, H, dtype=torch.float32), dist.get_rank() // 2
    whole, dealt = model_of().float(), st.parallelize(model_of().float(), mesh["tp"])
    for part in (dealt.self_attn, dealt.mlp, dealt):
        fully_shard(part, mesh=mesh["dp"])
    dealt(x[replica:replica + 1]).square().mean().backward()
    whole(x).square().mean().backward()
    mine = whole.mlp.down_proj.weight.grad.chunk(2, 1)[dist.get_rank() % 2]
    scale = mine.abs().max()
    close(dict(dealt.named_parameters())["mlp.down_proj.weight"].grad.full_tensor() / scale, mine / scale, 1e-4)
    for most in (1e9, 1e-3):
        right = torch.nn.utils.clip_grad_norm_(whole.parameters(), most)
        close(st.clip_grad_norm_(dealt, most) / right, torch.ones(()), 1e-4)
    state = st.full_state_dict(dealt)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(state[name], tensor), name


def check_styles(mesh):
    from torch.distributed.tensor.parallel import parallelize_module
    x = normal(1, 2, 6, H)
    whole, dealt = model_of(), model_of()
    keys = list(dealt.state_dict())
    parallelize_module(dealt, mesh["tp"], {
        "mlp.gate_proj": st.ColwiseParallel(), "mlp.up_proj": st.ColwiseParallel(),
        "mlp.down_proj": st.RowwiseParallel(), "self_attn.[qkv]_proj": st.ColwiseParallel(),
        "self_attn.o_proj": st.RowwiseParallel()})
    assert list(dealt.state_dict()) == keys
    close(dealt(x), whole(x), 3e-2)


def check_modules_with_sequence_parallelism(mesh):
    rank, tp = dist.get_rank() % 2, mesh["tp"]
    torch.manual_seed(6)
    gate, up = nn.Linear(H, FF).bfloat16(), nn.Linear(H, FF).bfloat16()
    down = nn.Linear(FF, H).bfloat16()
    x = normal(1, 3, 8, H)
    first = st.ColumnParallelLinear.from_linear(up, tp, dim=1)
    second = st.RowParallelLinear.from_linear(down, tp, dim=1)
    own = x[:, rank * 4:][:, :4]
    close(second(F.gelu(first(own))), down(F.gelu(up(x)))[:, rank * 4:][:, :4])
    down.bias = None
    mlp = st.ParallelMLP.from_linears(gate, up, down, group=tp, dim=1)
    close(mlp(own), down(F.silu(gate(x)) * up(x))[:, rank * 4:][:, :4], 3e-2)
    close(torch.compile(mlp, fullgraph=True, backend="aot_eager")(own), mlp(own))
    assert "ranks=2" in repr(mlp)
    made = st.ColumnParallelLinear(H, FF, group=tp, dtype=torch.bfloat16)
    assert made.weight.shape == (FF // 2, H) and made.bias.shape == (FF // 2,)
    # Ranks of one seed have the parts of one linear, and not the same part.
    for kind, cut in ((st.ColumnParallelLinear, 0), (st.RowParallelLinear, 1)):
        torch.manual_seed(7)
        right = nn.Linear(H, FF)
        torch.manual_seed(7)
        made = kind(H, FF, group=tp)
        assert torch.equal(made.weight, right.weight.chunk(2, cut)[rank])
        assert torch.equal(made.bias, right.bias.chunk(2)[rank] if cut == 0 else right.bias)
    made = st.ColumnParallelLinear(H, 7, group=tp, sequence_parallel=False)
    assert made(torch.ones(2, H)).shape == (2, 4 - rank) and made.weight.shape == (8, H)
