"""torch.ops.symm_mem's operators, and PyTorch's own pass that puts them into graphs."""

import torch
import torch.distributed as dist

import stretto.torch as st

from job_common import FF, H, close, inputs, normal


def check_drop_in(mesh):
    """torch.ops.symm_mem's operators, by Stretto and by PyTorch."""
    try:
        import torch.distributed._symmetric_memory as symmetric
    except ImportError:  # PyTorch before 2.5
        return
    rank, name = dist.get_rank(), mesh["tp"].get_group().group_name
    x, up, down = inputs(rank, False)
    names = {"fused_all_gather_matmul": lambda **more: torch.ops.symm_mem.fused_all_gather_matmul(
                 x, [up.t(), up.t()], 0, name, **more)[1],
             "fused_matmul_reduce_scatter": lambda **more: [torch.ops.symm_mem.fused_matmul_reduce_scatter(
                 x, up.t(), "sum", 0, name)]}
    right = {"fused_all_gather_matmul": symmetric._fused_all_gather_matmul_fallback(
                 x, [up.t(), up.t()], 0, name)[1],
             "fused_matmul_reduce_scatter": [symmetric._fused_matmul_reduce_scatter_fallback(
                 x, up.t(), "sum", 0, name)]}
    st.reset_report()
    st.enable_symm_mem()
    try:
        for op, call in names.items():
            for got, expected in zip(call(return_A=False), right[op]):
                close(got, expected)
            assert st.report().served[f"symm_mem.{op}"] == 1, st.report()
        gathered, _ = torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, name)
        assert torch.equal(gathered, symmetric._fused_all_gather_matmul_fallback(x, [up.t()], 0, name)[0])
        # What Stretto does not serve PyTorch does, and the reason is told; a group may forbid it.
        across, last = mesh["dp"].get_group().group_name, x.dim() - 1
        wide, _ = torch.ops.symm_mem.fused_all_gather_matmul(x, [normal(9, 2 * H, 8)], last, across)
        assert wide.shape[-1] == 2 * H
        try:
            torch.ops.symm_mem.fused_all_gather_matmul(x, [normal(9, 2 * H, 8)], last, name)
            raise AssertionError("there is no fallback")
        except ValueError as error:
            assert "is not served for group" in str(error) and "is not one of its rows" in str(error), error
        reasons = " ".join(reason for _, reason in st.report().fallbacks)
        assert "is not one of its rows" in reasons, reasons
        st.enable_symm_mem(return_gathered=False)
        assert torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, name)[0] is None
        st.enable_symm_mem()
        # As torch.compile's passes call them.
        torch._dynamo.reset()
        function = torch.compile(lambda x, w: torch.ops.symm_mem.fused_matmul_reduce_scatter(
            x, w.t(), "avg", 0, name), fullgraph=True, backend="aot_eager")
        close(function(x, up), right["fused_matmul_reduce_scatter"][0] / 2)
    finally:
        st.disable_symm_mem()
    try:
        torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, name)
        raise AssertionError("PyTorch has none for CPUs")
    except NotImplementedError:
        pass


def check_pytorchs_own_pass(mesh):
    """PyTorch's asynchronous tensor parallelism finds gathers and scatters beside products: Stretto gets them."""
    try:
        import torch.distributed._functional_collectives as collectives
        import torch.distributed._symmetric_memory as symmetric
        from torch._inductor.fx_passes.micro_pipeline_tp import micro_pipeline_tp_pass
        from torch.fx.experimental.proxy_tensor import make_fx
        gather, scatter = collectives.all_gather_single, collectives.reduce_scatter_single
    except (ImportError, AttributeError):  # other names in this PyTorch
        return
    tp, across = mesh["tp"].get_group(), mesh["dp"].get_group()
    x, up, _ = inputs(dist.get_rank(), False)

    def model(x, w):
        return scatter(x @ w.t(), "sum", 0, tp), gather(x, 0, tp) @ w.t()

    def back(dy, dz, w):
        """Gradients of x of both: by weights as they lie."""
        return scatter(dz @ w, "sum", 0, tp), gather(dy, 0, tp) @ w

    def back_with_weights(dy, x, w):
        """With the gradient of w, which takes the gathered rows, too."""
        rows = gather(dy, 0, across)
        return rows @ w, rows.t() @ x

    def check(function, *tensors):
        right = function(*tensors)
        traced = make_fx(function, tracing_mode="fake")(*tensors)
        with symmetric._test_mode():  # else it asks for GPUs
            micro_pipeline_tp_pass(traced.graph)
        traced.recompile()
        st.reset_report()
        st.enable_symm_mem()
        try:
            for one, other in zip(traced(*tensors), right):
                close(one, other)
        finally:
            st.disable_symm_mem()
        return {op: count for op, count in st.report().served.items() if op.startswith("symm_mem")}

    served = check(model, x, up)
    assert served == {"symm_mem.fused_all_gather_matmul": 1, "symm_mem.fused_matmul_reduce_scatter": 1}, served
    served = check(back, normal(1, 4, FF), normal(2, 8, FF), up)
    assert served == {"symm_mem.fused_all_gather_matmul, B turned": 1,
                      "symm_mem.fused_matmul_reduce_scatter, B turned": 1}, served
    served = check(back_with_weights, normal(1, 4, FF), normal(3, 8, H), up)
    assert served == {"symm_mem.fused_all_gather_matmul, B turned": 1}, served
