"""Plugins of serving frameworks, against stand-ins for what the frameworks publish; numbers by the emulator."""

import enum
import os
import pathlib
import sys
import types
import unittest
from unittest import mock

from ranks import Numbers, normal

import emulated

import torch
from torch import nn

import stretto.torch as st
import stretto.torch.frameworks
import stretto.torch.groups

try:  # while no stand-ins are in sys.modules
    import torch.distributed._symmetric_memory
except ImportError:
    HAS_SYMM_MEM = False
else:
    HAS_SYMM_MEM = True

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "integrations"
RANKS, K, N = 2, 16, 8


class UnquantizedLinearMethod:
    def apply(self, layer, x, bias=None):
        return nn.functional.linear(x, layer.weight, bias)


class Linear(nn.Module):
    """The fields of both frameworks' RowParallelLinear, and a forward that tells that it ran."""

    def __init__(self, rank=0, bias=True, skip_bias_add=False, reduce_results=True, tp_size=RANKS):
        super().__init__()
        self.weight = nn.Parameter(normal(rank, N, K), requires_grad=False)
        self.bias = nn.Parameter(normal(9, N), requires_grad=False) if bias else None
        self.skip_bias_add, self.reduce_results, self.tp_size = skip_bias_add, reduce_results, tp_size
        self.input_size, self.input_size_per_partition = tp_size * K, K
        self.input_is_parallel, self.quant_method = True, UnquantizedLinearMethod()

    def forward(self, input_, skip_all_reduce=False, forward_batch=None):
        return "the framework's"


class Groups:
    """get_tp_group() of each thread."""

    def __init__(self):
        import threading
        self.here = threading.local()

    def __call__(self, name=None):
        name = name or self.here.name
        return types.SimpleNamespace(device_group=types.SimpleNamespace(
            group_name=name, size=lambda: st.groups.ranks_of(name)))


class Plugin(Numbers):
    def modules(self, **named):
        """sys.modules with stand-ins, whose parents are there too."""
        made = {}
        for path, content in named.items():
            path = path.replace("__", ".")
            for end in range(1, path.count(".") + 2):
                name = ".".join(path.split(".")[:end])
                made.setdefault(name, types.ModuleType(name))
            made[path].__dict__.update(content)
        return mock.patch.dict(sys.modules, made)

    def imported(self, framework):
        patched = mock.patch.object(sys, "path", [str(FOLDER / framework), *sys.path])
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(sys.modules.pop, f"stretto_{framework}", None)
        return __import__(f"stretto_{framework}")

    def check_layers(self, make, call, groups):
        """What layers of both ranks give, against one rank with all columns."""
        x = [normal(20 + rank, 5, K) for rank in range(RANKS)]
        total = sum(x[rank].double() @ normal(rank, N, K).double().t() for rank in range(RANKS))

        def program(group):
            groups.here.name = group.name
            own = x[group.rank]
            whole, none = call(make(rank=group.rank), own)
            self.assertIsNone(none)
            self.assert_close(whole, total + normal(9, N).double())
            left, bias = call(make(rank=group.rank, skip_bias_add=True), own)
            self.assert_close(left, total)
            self.assertTrue(torch.equal(bias, normal(9, N)))
            others = [make(rank=group.rank, reduce_results=False), make(rank=group.rank, tp_size=4),
                      make(rank=group.rank)]
            others[-1].quant_method = object()
            for other in others:
                self.assertEqual(call(other, own), "the framework's")

        st.reset_report()
        st.run_threads(program, RANKS, timeout_s=60, fallback=False)
        self.assertEqual(st.report().served, {"matmul_all_reduce": 2 * RANKS})
        self.assertEqual({reason for _, reason in st.report().fallbacks}, {
            "its results are not reduced", "its 64 columns are not dealt to the group's 2 ranks",
            "its weights are object's"})


class Vllm(Plugin):
    def setUp(self):
        self.oot = {}
        oot = self.oot

        class RowParallelLinear(Linear):
            def __new__(cls, *arguments, **named):
                return super().__new__(oot.get(cls.__name__, cls))

            @classmethod
            def register_oot(cls, layer):
                assert cls.__name__ not in oot, "Duplicate layer name"
                oot[cls.__name__] = layer
                return layer

        self.linear, self.groups = RowParallelLinear, Groups()
        patched = self.modules(vllm__envs={},
                               vllm__model_executor__layers__linear={"RowParallelLinear": RowParallelLinear},
                               vllm__distributed={"get_tp_group": self.groups})
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(st.disable_symm_mem)

    def test_row_parallel_linears_are_strettos(self):
        plugin = self.imported("vllm")
        plugin.register()
        plugin.register()
        made = self.linear()
        self.assertIsInstance(made, self.linear)
        self.assertIsNot(type(made), self.linear)
        self.check_layers(self.linear, lambda layer, x: layer(x), self.groups)

    def test_plans_are_made_after_the_profiling_run(self):
        class GPUModelRunner:
            scheduler_config = types.SimpleNamespace(max_num_batched_tokens=700)
            layer = None

            def profile_run(self):
                return self.layer(normal(1, 700, K))

        class Older(GPUModelRunner):
            def profile_run(self):
                return "run"

        runner = GPUModelRunner
        with self.modules(vllm__v1__worker__gpu__model_runner={"GPUModelRunner": runner},
                          vllm__v1__worker__gpu_model_runner={"GPUModelRunner": Older}), \
                emulated.operations() as (made, _), st.Threads(RANKS, fallback=False, timeout_s=60) as threads:
            self.imported("vllm").register()
            own = runner.profile_run
            layers = [self.linear(rank=rank) for rank in range(RANKS)]
            self.assertEqual(runner.profile_run.__wrapped__, own)  # once, whatever layers there are
            self.assertTrue(Older.profile_run.__wrapped__)  # a server takes one of the two

            def program(group):
                self.groups.here.name = group.name
                mine = runner()
                mine.layer = layers[group.rank]
                self.assertEqual(tuple(mine.profile_run()[0].shape), (700, N))
                ready = [one.max_rows for one in made[group.rank]]
                for tokens in (1, 300, 512, 513, 700):
                    mine.layer(normal(1, tokens, K))
                self.assertEqual([one.max_rows for one in made[group.rank]], ready)
                return ready
            self.assertEqual(threads.run(program), [[1024, 256, 512]] * RANKS)
            largest, smallest, _ = made[0]
            self.assertEqual(sorted(set(largest.prepared)), [576, 640, 700])
            self.assertEqual(sorted(set(smallest.prepared)), [64, 128, 192, 256])
        alone = types.SimpleNamespace(device_group=types.SimpleNamespace(size=lambda: 1))
        with mock.patch.dict(sys.modules["vllm.distributed"].__dict__, {"get_tp_group": lambda: alone}):
            mine = runner()
            mine.layer = lambda x: "of one rank"
            self.assertEqual(mine.profile_run(), "of one rank")

    def test_a_linear_that_is_not_dealt_is_vllms(self):
        self.imported("vllm").register()
        self.assertEqual(self.linear(tp_size=1)(normal(1, 3, K)), "the framework's")

    def test_what_is_batch_invariant_is_vllms(self):
        self.imported("vllm").register()
        sys.modules["vllm.envs"].VLLM_BATCH_INVARIANT = True
        st.reset_report()
        self.assertEqual(self.linear()(normal(1, 3, K)), "the framework's")
        (_, reason), = st.report().fallbacks
        self.assertEqual(reason, "VLLM_BATCH_INVARIANT asks for vLLM's own products")

    def test_results_without_bias(self):
        self.imported("vllm").register()

        def program(group):
            self.groups.here.name = group.name
            layer = self.linear(rank=group.rank)
            layer.return_bias = False
            self.assertEqual(tuple(layer(normal(1, 3, K)).shape), (3, N))
        st.run_threads(program, RANKS, timeout_s=60)

    @unittest.skipUnless(HAS_SYMM_MEM, "this PyTorch has no torch.ops.symm_mem")
    def test_the_async_tp_pass_calls_stretto(self):
        with mock.patch.dict(os.environ, STRETTO_VLLM="async-tp"), self.assertLogs("stretto.vllm", "WARNING") as said:
            self.imported("vllm").register()
        self.assertIn("this vLLM has no AsyncTP pass", said.output[0])  # nor has the stand-in

        def program(group):
            gathered, (y,) = torch.ops.symm_mem.fused_all_gather_matmul(
                normal(1, 4, K), [normal(2, N, K).t()], 0, group.name)
            self.assertIsNone(gathered)
            return y
        for y in st.run_threads(program, RANKS, timeout_s=60):
            self.assertEqual(tuple(y.shape), (8, N))

    def test_a_variable_chooses(self):
        plugin = self.imported("vllm")
        self.assertEqual(plugin.parts(), ["linear"])
        for text, right in (("linear", ["linear"]), ("", []), (" async-tp , linear", ["linear", "async-tp"])):
            with mock.patch.dict(os.environ, STRETTO_VLLM=text):
                self.assertEqual(plugin.parts(), right)
        with mock.patch.dict(os.environ, STRETTO_VLLM="moe"):
            with self.assertRaisesRegex(ValueError, "names 'moe'; known: linear, async-tp"):
                plugin.register()

    def test_a_vllm_without_the_registry_stays_as_it_is(self):
        del self.linear.register_oot
        with self.assertLogs("stretto.vllm", "WARNING"):
            self.imported("vllm").register()
        self.assertIs(type(self.linear()), self.linear)


class Sglang(Plugin):
    def test_the_hook_serves_row_parallel_linears(self):
        kinds, hooks, groups = enum.Enum("HookType", "BEFORE AFTER AROUND REPLACE"), [], Groups()
        registry = types.SimpleNamespace(register=lambda *hook: hooks.append(hook))
        with self.modules(sglang__srt__plugins__hook_registry={"HookRegistry": registry, "HookType": kinds},
                          sglang__srt__distributed={"get_tp_group": groups}):
            self.imported("sglang").register()
            (target, hook, kind), = hooks
            self.assertEqual(target, "sglang.srt.layers.linear.RowParallelLinear.forward")
            self.assertIs(kind, kinds.AROUND)
            self.check_layers(Linear, lambda layer, x: hook(Linear.forward, layer, x), groups)
            self.check_what_stays(hook, Linear())

    def check_what_stays(self, hook, layer):
        """Nothing of these looks for a group: there is none on this thread."""
        x = normal(1, 3, K)
        st.reset_report()
        self.assertEqual(hook(Linear.forward, layer, x, skip_all_reduce=True), "the framework's")
        for name in ("use_dp_attention_reduce", "use_decode_attn_tp"):
            setattr(layer, name, True)
            self.assertEqual(hook(Linear.forward, layer, x), "the framework's")
            setattr(layer, name, False)
        for said in ({"should_skip_mlp_all_reduce": lambda: True},
                     {"get_forward": lambda: types.SimpleNamespace(sp_active=True)}):
            with self.modules(sglang__srt__layers__linear=said):
                self.assertEqual(hook(Linear.forward, layer, x), "the framework's")
        batch = object()
        self.assertEqual(hook(Linear.forward, layer, x, forward_batch=batch), "the framework's")  # nobody says what for
        for comm, deterministic in ((True, False), (False, True)):
            options = types.SimpleNamespace(
                comm=types.SimpleNamespace(enable_quant_communications=comm),
                deterministic=types.SimpleNamespace(enable_deterministic_inference=deterministic))
            with self.modules(sglang__srt__layers__linear={"get_exec": lambda: options}):
                self.assertEqual(hook(Linear.forward, layer, x, forward_batch=batch), "the framework's")
        alone = types.SimpleNamespace(device_group=types.SimpleNamespace(size=lambda: 1))
        for layer.tp_group in (alone, types.SimpleNamespace(world_size=2)):  # one rank; a group that is no group yet
            self.assertEqual(hook(Linear.forward, layer, x), "the framework's")
        self.assertEqual({reason: count for (_, reason), count in st.report().fallbacks.items()}, {
            "its caller asks for more than the sum": 2, "its sums are sent quantised": 1,
            "the server is deterministic for every number of tokens, which Stretto's plans are not": 1,
            "it is of data-parallel attention": 2,
            "its forward pass leaves the sum to others": 2, "it has no process group": 1})

    def test_what_stays_is_counted_when_it_is_compiled(self):
        class Alone(Linear):
            def forward(self, input_):
                y = st.frameworks.row_parallel(self, input_, "threads")
                return input_ * 2 if y is None else y
        torch._dynamo.reset()
        layer, x = Alone(reduce_results=False), normal(1, 3, K)
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        st.reset_report()
        for _ in range(3):
            self.assertTrue(torch.equal(compiled(x), x * 2))
        self.assertEqual(st.report().fallbacks, {("row_parallel_linear", "its results are not reduced"): 1})


if __name__ == "__main__":
    unittest.main()
