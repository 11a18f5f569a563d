"""torch.ops.symm_mem's operators, and PyTorch's own pass that puts them into graphs."""

import torch
import torch.distributed as dist

import stretto.torch as st

from job_common import H, close, inputs


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
        # What Stretto does not serve PyTorch does, and the reason is told; a group may forbid it.
        across = mesh["dp"].get_group().group_name
        gathered, _ = torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, across)
        assert gathered.shape == (16, H)
        torch.ops.symm_mem.fused_matmul_reduce_scatter(x, up.t().contiguous(), "sum", 0, across)
        try:
            torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, name)
            raise AssertionError("there is no fallback")
        except ValueError as error:
            assert "is not served for group" in str(error) and "return_A=True" in str(error), error
        reasons = " ".join(reason for _, reason in st.report().fallbacks)
        assert "return_A=True" in reasons and "weight.t() is" in reasons, reasons
        st.enable_symm_mem(return_gathered=False)
        assert torch.ops.symm_mem.fused_all_gather_matmul(x, [up.t()], 0, name)[0] is None
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
    tp = mesh["tp"].get_group()
    x, up, _ = inputs(dist.get_rank(), False)

    def model(x, w):
        return scatter(x @ w.t(), "sum", 0, tp), gather(x, 0, tp) @ w.t()

    right = model(x, up)
    traced = make_fx(model, tracing_mode="fake")(x, up)
    with symmetric._test_mode():  # else it asks for GPUs
        micro_pipeline_tp_pass(traced.graph)
    traced.recompile()
    st.reset_report()
    st.enable_symm_mem()
    try:
        for one, other in zip(traced(x, up), right):
            close(one, other)
    finally:
        st.disable_symm_mem()
    served = st.report().served
    assert served["symm_mem.fused_all_gather_matmul"] == served["symm_mem.fused_matmul_reduce_scatter"] == 1
