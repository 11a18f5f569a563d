"""SGLang's plugin: pip install this, and every process calls register().

Row-parallel linears (attention's output, MLPs' down) multiply and all-reduce in one operator. What Stretto does
not serve stays SGLang's: so do linears of data-parallel attention and those that leave the sum to somebody else.
"""

TARGET = "sglang.srt.layers.linear.RowParallelLinear.forward"


def register():
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    HookRegistry.register(TARGET, forward, HookType.AROUND)


def forward(original, layer, input_, *arguments, **named):
    """Around RowParallelLinear.forward(input_, ...): whoever passes more than the input gets the original."""
    leaves_sum = any(arguments) or any(named.values())
    if layer.tp_size == 1 or leaves_sum or getattr(layer, "use_dp_attention_reduce", False):
        return original(layer, input_, *arguments, **named)
    from sglang.srt.distributed import get_tp_group

    from stretto.torch import frameworks
    y = frameworks.row_parallel(layer, input_, get_tp_group().device_group.group_name)
    if y is None:
        return original(layer, input_, *arguments, **named)
    return y, (layer.bias if layer.skip_bias_add else None)
