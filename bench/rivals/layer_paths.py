"""Operators around dense products on this rank: their tensors, a reference, and what libraries make of them.

A sequence of libraries is called in its best form: products by cuBLAS, collectives by NCCL or on symmetric memory, and
what stands between by a kernel of one pass each (one_pass.py). PATHS has all by the operator's name.
"""

import torch
import torch.distributed as dist

from bench.rivals import one_pass
from bench.rivals.path_base import EPS, Paths, gated, normed, product, summed

FEW_ROWS = 512  # up to so many a rank may read all that the others have


class Mlp(Paths):
    """Gather, gate and up, SwiGLU, down, reduce-scatter."""

    def __init__(self, place, m, h, f):
        self.place, self.sizes = place, {"m": m, "h": h, "f": f}
        rows, inner = place.divided(m=m, f=f)
        self.moved, self.times_moved = (rows, h), 2
        self.x = place.normal(rows, h)
        self.up = place.normal(2 * inner, h, scale=h ** -0.5)
        self.down = place.normal(h, inner, scale=f ** -0.5)
        self.whole, self.both = place.empty(m, h), place.empty(m, 2 * inner)
        self.act, self.partial, self.out = place.empty(m, inner), place.empty(m, h), place.empty(rows, h)
        self.inputs = {"x": self.x, "wg": self.up[:inner], "wu": self.up[inner:], "wd": self.down}
        self.outputs, self.result = {"down": torch.empty_like(self.out)}, "down"

    def reference(self):
        act = gated(product(self.place.gathered(self.x), self.up)).bfloat16()
        return self.place.own_rows(summed(product(act, self.down)))

    def multiply_up(self):
        torch.mm(self.whole, self.up.t(), out=self.both)

    def multiply_down(self):
        torch.mm(self.act, self.down.t(), out=self.partial)

    def alone(self):
        def products():
            self.multiply_up()
            self.multiply_down()
        self.whole.normal_()
        self.act.normal_()
        return {"products": products}

    def nccl(self):
        dist.all_gather_into_tensor(self.whole, self.x)
        self.multiply_up()
        one_pass.swiglu(self.both, self.act)
        self.multiply_down()
        dist.reduce_scatter_tensor(self.out, self.partial)
        return self.out

    def async_tp(self):
        one_pass.swiglu(self.fused_columns(self.x, self.up), self.act)
        return self.fused_rows(self.act, self.down)

    def theirs(self):
        return {"nccl": self.nccl, **self.on_gpus(async_tp=self.async_tp)}

    def parts(self):
        m, h, f = self.sizes.values()
        out = torch.empty_like(self.out)

        def call(up, down):
            up.run({"a": self.x, "b": self.up, "out": self.both})
            one_pass.swiglu(self.both, self.act)
            down.run({"a": self.act, "b": self.down, "out": out})
            return out
        return {"up": ("ag-gemm", {"m": m, "n": 2 * f, "k": h}), "down": ("gemm-rs", {"m": m, "n": h, "k": f})}, call


class Norm(Paths):
    """A product, a sum over ranks of all or of own rows, the residual, RMSNorm."""

    scatters = gathers = False

    def __init__(self, place, m, n, k):
        self.place, self.sizes = place, {"m": m, "n": n, "k": k}
        rows, inner = place.divided(m=m, k=k)
        self.moved, self.times_moved = (rows, n), 1 if self.scatters and not self.gathers else 2
        self.held = rows if self.scatters else m
        self.a, self.b = place.normal(m, inner), place.normal(n, inner, scale=k ** -0.5)
        self.residual = place.normal(self.held, n, same=not self.scatters)
        self.scale = place.normal(1, n, same=True)
        self.partial, self.own = place.empty(m, n), place.empty(rows, n)
        self.out, self.total = place.empty(self.held, n), place.empty(self.held, n)
        self.inputs = {"a": self.a, "b": self.b, "r": self.residual, "w": self.scale}
        self.outputs = {"out": place.empty(m if self.gathers else self.held, n), "s": place.empty(self.held, n)}
        self.result = "out"

    def reference(self):
        total = summed(product(self.a, self.b))
        if self.scatters:
            total = self.place.own_rows(total)
        found = normed(total + self.residual.float(), self.scale)
        return self.place.gathered(found) if self.gathers else found

    def multiply(self):
        torch.mm(self.a, self.b.t(), out=self.partial)

    def alone(self):
        return {"products": self.multiply}

    def norm(self, x):
        one_pass.add_norm(x, self.residual, self.scale, self.out, self.total, EPS)
        return self.out

    def nccl(self):
        self.multiply()
        dist.all_reduce(self.partial)
        return self.norm(self.partial)

    def theirs(self):
        if self.place.device == "cpu":
            return {"nccl": self.nccl}
        shared, group = self.place.symmetric(*self.partial.shape), self.place.group

        def two_shot():
            torch.mm(self.a, self.b.t(), out=shared)
            torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", group)
            return self.norm(shared)

        def one_shot():
            torch.mm(self.a, self.b.t(), out=shared)
            return self.norm(torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", group))
        few = {"one-shot": one_shot} if self.sizes["m"] <= FEW_ROWS else {}
        return {"nccl": self.nccl, "two-shot": two_shot, **few}

    def by_flashinfer(self, fusion, workspace, uses_pdl):
        """The product, then TensorRT-LLM's all-reduce with residual and norm in one kernel."""
        def call():
            self.multiply()
            fusion.allreduce_fusion(
                input=self.partial, workspace=workspace, pattern=fusion.AllReduceFusionPattern.kARResidualRMSNorm,
                launch_with_pdl=uses_pdl, residual_out=self.total, norm_out=self.out, residual_in=self.residual,
                rms_gamma=self.scale[0], rms_eps=EPS)
            return self.out
        return call

    def parts(self):
        sum_of = "gemm-rs" if self.scatters else "gemm-ar"
        shared = torch.empty_like(self.own if self.scatters else self.partial)

        def call(product):
            product.run({"a": self.a, "b": self.b, "out": shared})
            return self.norm(shared)
        return {"product": (sum_of, self.sizes)}, call


class NormOfRows(Norm):
    scatters = True

    def nccl(self):
        self.multiply()
        dist.reduce_scatter_tensor(self.own, self.partial)
        return self.norm(self.own)

    def async_tp(self):
        return self.norm(self.fused_rows(self.a, self.b))

    def theirs(self):
        return {"nccl": self.nccl, **self.on_gpus(async_tp=self.async_tp)}


class NormGathered(NormOfRows):
    gathers = True

    def gather(self, own):
        dist.all_gather_into_tensor(self.partial, own)
        return self.partial

    def theirs(self):
        return {label: lambda call=call: self.gather(call()) for label, call in super().theirs().items()}

    def parts(self):
        return None


class ProductToColumns(Paths):
    """A product of own rows, then tokens -> heads: an all-to-all of columns."""

    def __init__(self, place, m, n, k):
        self.place, self.sizes = place, {"m": m, "n": n, "k": k}
        rows, columns = place.divided(m=m, n=n)
        self.moved, self.times_moved = (rows, columns), 1
        self.a, self.b = place.normal(rows, k), place.normal(n, k, scale=k ** -0.5, same=True)
        self.made, self.sent = place.empty(rows, n), place.empty(place.ranks, rows, columns)
        self.out = place.empty(m, columns)
        self.inputs, self.outputs, self.result = {"a": self.a, "b": self.b}, {"out": place.empty(m, columns)}, "out"

    def reference(self):
        whole = self.place.gathered(product(self.a, self.b).bfloat16())
        return whole.chunk(self.place.ranks, 1)[self.place.rank].float()

    def alone(self):
        return {"products": lambda: torch.mm(self.a, self.b.t(), out=self.made)}

    def nccl(self):
        torch.mm(self.a, self.b.t(), out=self.made)
        one_pass.deal_columns(self.made, self.sent)
        dist.all_to_all_single(self.out, self.sent.view_as(self.out))
        return self.out

    def nccl_no_permute(self):
        """A product for each rank, whose results lie as they are sent."""
        for part, weight in zip(self.sent, self.b.chunk(self.place.ranks)):
            torch.mm(self.a, weight.t(), out=part)
        dist.all_to_all_single(self.out, self.sent.view_as(self.out))
        return self.out

    def theirs(self):
        return {"nccl": self.nccl, "nccl-no-permute": self.nccl_no_permute}


class ColumnsToProduct(Paths):
    """Heads -> tokens, an all-to-all of rows, then a product of own rows."""

    def __init__(self, place, m, n, k):
        self.place, self.sizes = place, {"m": m, "n": n, "k": k}
        rows, inner = place.divided(m=m, k=k)
        self.moved, self.times_moved = (rows, inner), 1
        self.a, self.b = place.normal(m, inner), place.normal(n, k, scale=k ** -0.5, same=True)
        self.brought, self.own = place.empty(place.ranks, rows, inner), place.empty(rows, k)
        self.out = place.empty(rows, n)
        self.inputs, self.outputs, self.result = {"a": self.a, "b": self.b}, {"out": place.empty(rows, n)}, "out"

    def reference(self):
        whole = torch.cat(self.place.gathered(self.a[None]).unbind(), 1)
        return product(self.place.own_rows(whole), self.b)

    def alone(self):
        self.own.normal_()
        return {"products": lambda: torch.mm(self.own, self.b.t(), out=self.out)}

    def nccl(self):
        dist.all_to_all_single(self.brought.view_as(self.a), self.a)
        one_pass.join_columns(self.brought, self.own)
        return torch.mm(self.own, self.b.t(), out=self.out)

    def theirs(self):
        return {"nccl": self.nccl}


class DecoderLayer(Paths):
    """From attention's result to the next one's queries, keys and values."""

    schedules = ("auto", "split=2/tiles", "split=2/library")

    def __init__(self, place, m, h, f, heads, kv_heads, head_dim):
        self.place = place
        self.sizes = {"m": m, "h": h, "f": f, "heads": heads, "kv-heads": kv_heads, "head-dim": head_dim}
        rows, inner, width, columns = place.divided(m=m, f=f, q=heads * head_dim, qkv=(heads + 2 * kv_heads) * head_dim)
        self.moved, self.times_moved = (rows, h), 4
        normal, empty = place.normal, place.empty
        self.x, self.residual = normal(m, width), normal(rows, h)
        self.wo = normal(h, width, scale=(width * place.ranks) ** -0.5)
        self.up, self.down = normal(2 * inner, h, scale=h ** -0.5), normal(h, inner, scale=f ** -0.5)
        self.qkv = normal(columns, h, scale=h ** -0.5)
        self.n1, self.n2 = normal(1, h, same=True), normal(1, h, same=True)
        self.partial, self.own, self.whole = empty(m, h), empty(rows, h), empty(m, h)
        self.s, self.t, self.v = empty(rows, h), empty(rows, h), empty(rows, h)
        self.both, self.act, self.out = empty(m, 2 * inner), empty(m, inner), empty(m, columns)
        self.inputs = {"x": self.x, "wo": self.wo, "r": self.residual, "n1": self.n1, "wg": self.up[:inner],
                       "wu": self.up[inner:], "wd": self.down, "n2": self.n2, "wqkv": self.qkv}
        self.outputs, self.result = {"qkv": torch.empty_like(self.out), "v": torch.empty_like(self.v)}, "qkv"

    def reference(self):
        place = self.place
        s = place.own_rows(summed(product(self.x, self.wo))) + self.residual.float()
        t = place.gathered(normed(s, self.n1).bfloat16())
        down = place.own_rows(summed(product(gated(product(t, self.up)).bfloat16(), self.down)))
        v = down + s.bfloat16().float()
        return product(place.gathered(normed(v, self.n2).bfloat16()), self.qkv)

    def alone(self):
        def products():
            torch.mm(self.x, self.wo.t(), out=self.partial)
            torch.mm(self.whole, self.up.t(), out=self.both)
            torch.mm(self.act, self.down.t(), out=self.partial)
            torch.mm(self.whole, self.qkv.t(), out=self.out)
        self.whole.normal_()
        self.act.normal_()
        return {"products": products}

    def nccl(self):
        torch.mm(self.x, self.wo.t(), out=self.partial)
        dist.reduce_scatter_tensor(self.own, self.partial)
        one_pass.add_norm(self.own, self.residual, self.n1, self.t, self.s, EPS)
        dist.all_gather_into_tensor(self.whole, self.t)
        torch.mm(self.whole, self.up.t(), out=self.both)
        one_pass.swiglu(self.both, self.act)
        torch.mm(self.act, self.down.t(), out=self.partial)
        dist.reduce_scatter_tensor(self.own, self.partial)
        one_pass.add_norm(self.own, self.s, self.n2, self.t, self.v, EPS)
        dist.all_gather_into_tensor(self.whole, self.t)
        return torch.mm(self.whole, self.qkv.t(), out=self.out)

    def async_tp(self):
        own = self.fused_rows(self.x, self.wo)
        one_pass.add_norm(own, self.residual, self.n1, self.t, self.s, EPS)
        one_pass.swiglu(self.fused_columns(self.t, self.up), self.act)
        one_pass.add_norm(self.fused_rows(self.act, self.down), self.s, self.n2, self.t, self.v, EPS)
        return self.fused_columns(self.t, self.qkv)

    def theirs(self):
        return {"nccl": self.nccl, **self.on_gpus(async_tp=self.async_tp)}


PATHS = {"mlp": Mlp, "gemm-ar-norm": Norm, "gemm-rs-norm": NormOfRows, "gemm-rs-norm-ag": NormGathered,
         "gemm-a2a": ProductToColumns, "a2a-gemm": ColumnsToProduct, "layer": DecoderLayer}
SIZES = {**dict.fromkeys(PATHS, ("m", "n", "k")), "mlp": ("m", "h", "f"),
         "layer": ("m", "h", "f", "heads", "kv-heads", "head-dim")}
