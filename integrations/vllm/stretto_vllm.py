"""vLLM's plugin: pip install this, and every worker process calls register().

STRETTO_VLLM says what is Stretto's, "" nothing; what it does not serve stays vLLM's:

linear    (the default) row-parallel linears, attention's output and MLPs' down: product and all-reduce in one
          operator. vLLM's passes that look for its own all-reduce (sequence parallelism, so AsyncTP, and
          fusions with RMSNorm) do not find it there. After vLLM's profiling run, which has the most tokens, plans
          for all smaller numbers are made: serving makes none, and vLLM counts their memory
async-tp  torch.ops.symm_mem's fused operators, which vLLM's AsyncTP pass puts into compiled models; releases from 0.32
          on have no such pass
"""

import functools
import importlib.util
import logging
import os
import sys

log = logging.getLogger("stretto.vllm")
PARTS = ("linear", "async-tp")
RUNNERS = ("vllm.v1.worker.gpu.model_runner", "vllm.v1.worker.gpu_model_runner")  # a server takes one
ASYNC_TP = ("vllm.compilation.passes.fusion.collective_fusion", "vllm.compilation.collective_fusion")
_done = set()


def parts():
    """What STRETTO_VLLM asks for. Raises ValueError."""
    asked = [part.strip() for part in os.environ.get("STRETTO_VLLM", PARTS[0]).split(",")]
    unknown = [part for part in asked if part and part not in PARTS]
    if unknown:
        raise ValueError(f"STRETTO_VLLM names {unknown[0]!r}; known: {', '.join(PARTS)}")
    return [part for part in PARTS if part in asked]


def register():
    """vLLM calls it in every process, in some of them more than once."""
    for part in parts():
        if part in _done:
            continue
        _done.add(part)
        if part == "linear":
            replace_row_parallel_linear()
        else:
            from stretto.torch import enable_symm_mem
            if not has_async_tp():
                log.warning("this vLLM has no AsyncTP pass, so that nothing calls Stretto for it; releases up to 0.31 "
                            "have one. STRETTO_VLLM=linear serves row-parallel linears")
            # The pass never reads the gathered rows, and does not say so.
            enable_symm_mem(return_gathered=False)


def has_async_tp():
    for name in ASYNC_TP:
        try:
            if importlib.util.find_spec(name):
                return True
        except ImportError:  # a folder on its way is not there
            pass
    return False


def replace_row_parallel_linear():
    """By the registry of out-of-tree layers: whoever makes a RowParallelLinear gets Stretto's."""
    from vllm.model_executor.layers.linear import RowParallelLinear

    from stretto.torch import frameworks

    if not hasattr(RowParallelLinear, "register_oot"):
        log.warning("this vLLM has no registry for RowParallelLinear: its linears stay as they are")
        return

    class StrettoRowParallelLinear(RowParallelLinear):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self.is_batch_invariant = is_batch_invariant()
            tell_of_fusions()
            prepare_after_profiling()

        def forward(self, input_):
            if self.tp_size == 1:
                return super().forward(input_)
            if self.is_batch_invariant:
                frameworks.leave("VLLM_BATCH_INVARIANT asks for vLLM's own products")
                return super().forward(input_)
            from vllm.distributed import get_tp_group
            y = frameworks.row_parallel(self, input_, get_tp_group().device_group.group_name)
            if y is None:
                return super().forward(input_)
            if not getattr(self, "return_bias", True):
                return y
            return y, (self.bias if self.skip_bias_add else None)

    RowParallelLinear.register_oot(StrettoRowParallelLinear)


def is_batch_invariant():
    """Whether a token's numbers may not depend on how many others there are. Stretto's may: their plans differ."""
    import vllm.envs as envs
    return getattr(envs, "VLLM_BATCH_INVARIANT", False)


def tell_of_fusions():
    """vLLM has passes on by itself that look for an all-reduce behind a linear, and find none in Stretto's."""
    try:
        from vllm.config import get_current_vllm_config_or_none
    except ImportError:  # older releases
        return
    config = get_current_vllm_config_or_none()
    passes = config and config.compilation_config.pass_config
    for name in ("fuse_allreduce_rms", "enable_sp"):
        if getattr(passes, name, False) and name not in _done:
            _done.add(name)
            log.warning("vLLM's %s is on, and finds no all-reduce of linears that Stretto serves: STRETTO_VLLM= leaves "
                        "them to vLLM", name)


def prepare_after_profiling():
    """Called where a model is made, in a process whose runner is there: plugins are loaded before it."""
    for name in RUNNERS:
        runner = getattr(sys.modules.get(name), "GPUModelRunner", None)
        if hasattr(runner, "profile_run") and name not in _done:
            _done.add(name)
            prepare_after(runner)


def prepare_after(runner):
    profile_run = runner.profile_run

    @functools.wraps(profile_run)
    def profile_and_prepare(self, *arguments, **named):
        made = profile_run(self, *arguments, **named)
        from vllm.distributed import get_tp_group
        group = get_tp_group().device_group
        if group.size() > 1:
            from stretto.torch import prepare
            most = self.scheduler_config.max_num_batched_tokens
            count = prepare(most, group.group_name, progress=lambda done, of, what: log.debug("%d of %d: %s", done, of,
                                                                                              what))
            log.info("made %d operations for up to %d tokens", count, most)
        return made
    runner.profile_run = profile_and_prepare
