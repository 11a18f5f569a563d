"""vLLM's plugin: pip install this, and every worker process calls register().

STRETTO_VLLM says what is Stretto's, "" nothing; what it does not serve stays vLLM's:

linear    (the default) row-parallel linears, attention's output and MLPs' down: product and all-reduce in one
          operator. vLLM's passes that look for its own all-reduce (sequence parallelism, so AsyncTP, and
          fusions with RMSNorm) do not find it there. After vLLM's profiling run, which has the most tokens, plans
          for all smaller numbers are made: serving makes none, and vLLM counts their memory
async-tp  torch.ops.symm_mem's fused operators, which vLLM's AsyncTP pass puts into compiled models
"""

import functools
import logging
import os
import sys

log = logging.getLogger("stretto.vllm")
PARTS = ("linear", "async-tp")
RUNNER = "vllm.v1.worker.gpu_model_runner"
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
            # The pass never reads the gathered rows, and does not say so.
            enable_symm_mem(return_gathered=False)


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
            prepare_after_profiling()

        def forward(self, input_):
            if self.tp_size == 1:
                return super().forward(input_)
            from vllm.distributed import get_tp_group
            y = frameworks.row_parallel(self, input_, get_tp_group().device_group.group_name)
            if y is None:
                return super().forward(input_)
            if not getattr(self, "return_bias", True):
                return y
            return y, (self.bias if self.skip_bias_add else None)

    RowParallelLinear.register_oot(StrettoRowParallelLinear)


def prepare_after_profiling():
    """Called where a model is made, in a process whose runner is there: plugins are loaded before it."""
    runner = getattr(sys.modules.get(RUNNER), "GPUModelRunner", None)
    profile_run = getattr(runner, "profile_run", None)
    if profile_run is None or "prepare" in _done:
        return
    _done.add("prepare")

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
