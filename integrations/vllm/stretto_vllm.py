"""vLLM's plugin: pip install this, and every worker process calls register().

STRETTO_VLLM says what is Stretto's, "" nothing; what it does not serve stays vLLM's:

linear    (the default) row-parallel linears, attention's output and MLPs' down: product and all-reduce in one
          operator. vLLM's passes that look for its own all-reduce (sequence parallelism, so AsyncTP, and
          fusions with RMSNorm) do not find it there
async-tp  torch.ops.symm_mem's fused operators, which vLLM's AsyncTP pass puts into compiled models
"""

import logging
import os

log = logging.getLogger("stretto.vllm")
PARTS = ("linear", "async-tp")
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
