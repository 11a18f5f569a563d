"""SGLang's plugin: pip install this, and every process calls register().

Row-parallel linears that all-reduce their results multiply and all-reduce in one operator. What Stretto does not
serve stays SGLang's: so do linears of data-parallel attention, and those that leave the sum to somebody else.
"""

import sys

MODULE = "sglang.srt.layers.linear"


def register():
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    HookRegistry.register(f"{MODULE}.RowParallelLinear.forward", forward, HookType.AROUND)


def leaves_the_sum(layer):
    """Whether somebody else adds up what this linear makes, or adds it up otherwise. Newer releases say so for
    each forward pass, in functions of the linear's module.
    """
    module = sys.modules.get(MODULE)
    skips = getattr(module, "should_skip_mlp_all_reduce", None)
    pass_of = getattr(module, "get_forward", None)
    return (getattr(layer, "use_dp_attention_reduce", False) or getattr(layer, "use_decode_attn_tp", False) or
            bool(skips and skips()) or bool(pass_of and getattr(pass_of(), "sp_active", False)))


def group_of(layer):
    """The ranks that the layer's input is dealt to."""
    if getattr(layer, "tp_group", None) is not None:
        return layer.tp_group
    from sglang.srt.distributed import get_tp_group
    return get_tp_group()


def forward(original, layer, input_, *arguments, **named):
    """Around RowParallelLinear.forward(input_, ...): who asks for more than its sum gets the original."""
    asks_more = any(one is not None and one is not False for one in (*arguments, *named.values()))
    if not asks_more and not leaves_the_sum(layer):
        from stretto.torch import frameworks
        group = getattr(group_of(layer), "device_group", None)
        if group is not None and group.size() > 1:
            y = frameworks.row_parallel(layer, input_, group.group_name)
            if y is not None:
                return y, (layer.bias if layer.skip_bias_add else None)
    return original(layer, input_, *arguments, **named)
