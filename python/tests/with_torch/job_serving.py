"""What each of two processes does with a serving framework that is installed; test_torch_serving.py starts them.

Prints a line "NAME ok", or what failed, for each check of the framework that is named first: all ranks make them in the
same order. Nothing here needs a GPU: groups are gloo's, and Stretto's numbers the emulator's.
"""

import functools
import importlib
import inspect
import os
import pathlib
import sys
import tempfile
import traceback
import types
from unittest import mock

from job_common import close, normal

import torch
import torch.nn.functional as F

import stretto.torch as st

try:
    import tomllib
except ImportError:  # before Python 3.11, from which on frameworks are
    tomllib = None

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "integrations"
RANKS, K, N, WIDTH = 2, 32, 16, 64


def install(name):
    """The plugin's package as an installer leaves it: its module, and what says where its entry point is."""
    project = tomllib.loads((FOLDER / name / "pyproject.toml").read_text())["project"]
    folder = pathlib.Path(tempfile.mkdtemp())
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("\n".join(
        f"[{group}]\n" + "\n".join(f"{one} = {at}" for one, at in points.items())
        for group, points in project["entry-points"].items()) + "\n")
    sys.path[:0] = [str(folder), str(FOLDER / name)]


def whole_of(seed):
    """A linear's x, weight and bias, of all ranks."""
    return normal(seed, 5, K), normal(seed + 1, N, K), normal(seed + 2, N)


def filled(make, rank, **options):
    """A row-parallel linear with this rank's part of whole_of(1), and the rank's x."""
    layer = make(K, N, params_dtype=torch.bfloat16, **options)
    x, weight, bias = whole_of(1)
    layer.weight.data.copy_(weight.chunk(RANKS, 1)[rank])
    if layer.bias is not None:
        layer.bias.data.copy_(bias)
    return layer, x.chunk(RANKS, 1)[rank].contiguous()


def check_linears_of(make, rank, module):
    """Results with a bias, without, and left to the caller; who leaves the sum to others stays the framework's."""
    x, weight, bias = whole_of(1)
    right = x.double() @ weight.double().t()
    st.reset_report()
    with torch.no_grad():
        layer, own = filled(make, rank)
        made, left = layer(own)
        assert left is None
        close(made, right + bias.double())
        again, _ = layer(own)
        assert torch.equal(again, made)
        layer, own = filled(make, rank, skip_bias_add=True)
        made, left = layer(own)
        close(made, right)
        assert torch.equal(left, bias)
        assert st.report().served == {"matmul_all_reduce": 3}, st.report()
        layer, own = filled(make, rank, bias=False, reduce_results=False)
        close(layer(own)[0], own.double() @ layer.weight.double().t())
        layer, own = filled(make, rank)
        layer.quant_method = types.SimpleNamespace(apply=lambda layer, x, bias=None: F.linear(x, layer.weight, bias))
        with mock.patch.object(module, "tensor_model_parallel_all_reduce", lambda part: part):
            close(layer(own)[0], own.double() @ layer.weight.double().t() + (bias.double() if rank == 0 else 0))
    assert {reason for _, reason in st.report().fallbacks} == {
        "its results are not reduced", "its weights are SimpleNamespace's"}, st.report()


def check_mlp_of(kind, rank, compiled=True):
    """A model's own MLP, as it is and compiled without a break, for several numbers of tokens."""
    mlp = kind(K, WIDTH, "silu").to(torch.bfloat16)
    gate, up, down = normal(4, WIDTH, K) / 4, normal(5, WIDTH, K) / 4, normal(6, K, WIDTH) / 4
    mlp.gate_up_proj.weight.data.copy_(torch.cat([one.chunk(RANKS)[rank] for one in (gate, up)]))
    mlp.down_proj.weight.data.copy_(down.chunk(RANKS, 1)[rank])
    st.reset_report()
    with torch.no_grad():
        ways = [mlp] + ([torch.compile(mlp, fullgraph=True, dynamic=True, backend="aot_eager")] if compiled else [])
        for way in ways:
            for tokens in (5, 9):
                x = normal(tokens, tokens, K)
                right = F.linear(F.silu(F.linear(x.double(), gate.double())) * F.linear(x.double(), up.double()),
                                 down.double())
                close(way(x), right)
    assert st.report().served == {"matmul_all_reduce": 2 * len(ways)} and not st.report().fallbacks, st.report()


class Vllm:
    """vLLM's loader of plugins, its registry, groups, linears, runners and passes."""

    def __init__(self, rank, where):
        os.environ.update(VLLM_PLUGINS="stretto", STRETTO_VLLM="linear,async-tp", VLLM_LOGGING_LEVEL="ERROR")
        install("vllm")
        from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
        from vllm.distributed import init_distributed_environment, initialize_model_parallel
        from vllm.plugins import load_general_plugins
        # The base class of linears' weights asks for it; and so does a server before it makes a model.
        load_general_plugins()
        self.rank, self.config = rank, VllmConfig(device_config=DeviceConfig(device="cpu"))
        self.current = set_current_vllm_config(self.config)
        self.current.__enter__()
        init_distributed_environment(RANKS, rank, f"file://{where}", rank, backend="gloo")
        initialize_model_parallel(RANKS)
        from vllm.model_executor.layers import linear
        self.linear = linear

    def check_that_the_loader_found_the_plugin(self):
        made, _ = filled(self.linear.RowParallelLinear, self.rank)
        assert type(made).__name__ == "StrettoRowParallelLinear", type(made)
        assert isinstance(made, self.linear.RowParallelLinear)
        assert sys.modules["stretto_vllm"]._done >= {"linear", "async-tp"}

    def check_linears(self):
        check_linears_of(self.linear.RowParallelLinear, self.rank, self.linear)
        made, own = filled(self.linear.RowParallelLinear, self.rank, return_bias=False)
        x, weight, bias = whole_of(1)
        with torch.no_grad():
            close(made(own), x.double() @ weight.double().t() + bias.double())

    def check_weights_are_given_as_plain_tensors(self):
        """Of which the library knows calls that come again; vLLM's are of a class of its own."""
        made, own = filled(self.linear.RowParallelLinear, self.rank)
        assert type(made.weight) not in (torch.Tensor, torch.nn.Parameter), type(made.weight)
        with mock.patch.object(st.frameworks.st, "matmul_all_reduce") as call, torch.no_grad():
            made(own)
        _, weight, *_ = call.call_args.args
        assert type(weight) is torch.Tensor and weight.data_ptr() == made.weight.data_ptr()

    def check_what_is_batch_invariant_stays(self):
        with mock.patch.dict(os.environ, VLLM_BATCH_INVARIANT="1"):
            from vllm import envs
            assert envs.VLLM_BATCH_INVARIANT
            made, own = filled(self.linear.RowParallelLinear, self.rank)
        st.reset_report()
        with mock.patch.object(self.linear, "tensor_model_parallel_all_reduce", lambda part: part), torch.no_grad():
            made(own)
        assert [reason for _, reason in st.report().fallbacks] == ["VLLM_BATCH_INVARIANT asks for vLLM's own products"]

    def check_that_passes_which_find_nothing_are_told_of(self):
        passes = self.config.compilation_config.pass_config
        with mock.patch.object(passes, "fuse_allreduce_rms", True), \
                mock.patch.object(sys.modules["stretto_vllm"].log, "warning") as said:
            for _ in range(2):
                filled(self.linear.RowParallelLinear, self.rank)
        (text, name), = [call.args for call in said.call_args_list]
        assert name == "fuse_allreduce_rms" and "finds no all-reduce" in text

    def check_llamas_mlp(self):
        from vllm.model_executor.models.llama import LlamaMLP
        check_mlp_of(LlamaMLP, self.rank)

    def check_plans_are_made_after_the_profiling_run_of_each_runner(self):
        """Of the classes that there are; what they run, and the number of tokens is theirs. The run itself is not."""
        plugin = sys.modules["stretto_vllm"]
        found = [importlib.import_module(name) for name in plugin.RUNNERS if importlib.util.find_spec(name)]
        assert found
        for module in found:
            runner, plugin._done = module.GPUModelRunner, plugin._done - {module.__name__}
            assert "self.scheduler_config = " in inspect.getsource(runner.__init__)

            @functools.wraps(runner.profile_run)
            def profile_run(self, *arguments, **named):
                return inspect.signature(profile_run).bind(self, *arguments, **named).arguments

            with mock.patch.object(runner, "profile_run", profile_run):
                filled(self.linear.RowParallelLinear, self.rank)
                mine = runner.__new__(runner)
                mine.scheduler_config = self.config.scheduler_config
                with mock.patch.object(st, "prepare", return_value=7) as prepare:
                    assert mine.profile_run()["self"] is mine
            (most, name), _ = prepare.call_args
            assert most == self.config.scheduler_config.max_num_batched_tokens, most
            assert st.groups.ranks_of(name) == RANKS

    def check_the_async_tp_pass(self):
        """Its patterns are found in what is traced, and compiled code calls Stretto."""
        try:
            from vllm.compilation.passes.fusion.collective_fusion import AsyncTPPass
        except ImportError:
            assert not sys.modules["stretto_vllm"].has_async_tp()
            return "this vLLM has no AsyncTP pass"
        assert sys.modules["stretto_vllm"].has_async_tp()
        from vllm.distributed import get_tp_group
        group, found = get_tp_group().unique_name, []
        fuse = AsyncTPPass(self.config)

        def layer(x, up, down):
            whole = torch.ops.vllm.all_gather.default(x, dim=0, world_size=RANKS, group_name=group)
            made = torch.mm(torch.relu(torch.mm(whole, up)), down)
            return torch.ops.vllm.reduce_scatter.default(made, dim=0, world_size=RANKS, group_name=group)

        class Pass(torch._inductor.custom_graph_pass.CustomGraphPass):
            def __call__(self, graph):
                fuse(graph)
                found.append(fuse.matched_count)

            def uuid(self):
                return None

        x, up, down = normal(7 + self.rank, 4, K), normal(10, WIDTH, K).t(), normal(11, K, WIDTH).t()
        st.reset_report()
        with torch._inductor.config.patch(post_grad_custom_post_pass=Pass(), force_disable_caches=True), \
                torch.no_grad():
            right = layer(x, up, down)
            close(torch.compile(layer, fullgraph=True)(x, up, down), right)
        assert found == [2], found
        served = st.report().served
        assert served["symm_mem.fused_all_gather_matmul"] == served["symm_mem.fused_matmul_reduce_scatter"] == 1, served
        return None


class Sglang:
    """SGLang's loader of plugins, its hooks, groups and linears; NCCL's communicator is a stand-in."""

    def __init__(self, rank, where):
        os.environ["SGLANG_PLUGINS"] = "stretto"
        install("sglang")
        from sglang.srt.plugins import load_plugins
        load_plugins()
        from sglang.srt import distributed, runtime_context
        from sglang.srt.layers import linear
        from sglang.srt.server_args import ServerArgs
        self.rank, self.linear, self.context = rank, linear, runtime_context
        runtime_context.publish(ServerArgs(model_path="none", device="cpu", tp_size=RANKS), role="test",
                                ranks=runtime_context.SpawnRanks(world_rank=rank, dp_rank=None))
        distributed.init_distributed_environment(RANKS, rank, f"file://{where}", rank, backend="gloo")
        with mock.patch("sglang.srt.distributed.device_communicators.pynccl.PyNcclCommunicator"):
            distributed.initialize_model_parallel()

    def check_that_the_hook_is_around_linears(self):
        assert self.linear.RowParallelLinear.forward.__wrapped__
        assert "stretto_sglang" in sys.modules

    def check_linears(self):
        check_linears_of(self.linear.RowParallelLinear, self.rank, self.linear)

    def check_what_forward_passes_say(self):
        """Batches are taken; sums that others make are theirs."""
        made, own = filled(self.linear.RowParallelLinear, self.rank)
        st.reset_report()
        with torch.no_grad():
            right, _ = made(own)
            again, _ = made(own, forward_batch=types.SimpleNamespace())
            assert torch.equal(again, right) and st.report().served == {"matmul_all_reduce": 2}, st.report()
            made(own, skip_all_reduce=True)
            with self.context.get_forward().scoped(mlp_reduce_scatter=True):
                made(own)
        assert {reason: count for (_, reason), count in st.report().fallbacks.items()} == {
            "its caller asks for more than the sum": 1, "its forward pass leaves the sum to others": 1}, st.report()

    def check_granites_mlp(self):
        from sglang.srt.models.granite import GraniteMLP
        check_mlp_of(GraniteMLP, self.rank, compiled=False)


def main():
    torch.set_num_threads(1)
    kind = {"vllm": Vllm, "sglang": Sglang}[sys.argv[1]]
    framework = kind(int(sys.argv[2]), sys.argv[3])
    for name in [one for one in vars(kind) if one.startswith("check_")]:
        try:
            said = getattr(framework, name)()
            print(name, said or "ok", flush=True)
            torch.distributed.barrier()
        except Exception:
            print(name, traceback.format_exc().replace("\n", "\n    "), flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
