"""SGLang's plugin: pip install this, and every process calls register().

Row-parallel linears that all-reduce their results multiply and all-reduce in one operator. What Stretto does not
serve stays SGLang's: so do linears of data-parallel attention, and those that leave the sum to somebody else, as those
of Llama, Qwen, Mixtral and DeepSeek do in newer releases.
"""

import sys

MODULE = "sglang.srt.layers.linear"


def register():
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    HookRegistry.register(f"{MODULE}.RowParallelLinear.forward", forward, HookType.AROUND)


def reason_against(layer, more, batch=None):
    """Why SGLang's own forward() is to do it; None: it need not. Newer releases say for each forward pass, in
    functions of the linear's module, that somebody else adds up what this linear makes, or adds it up otherwise, and
    for the server that sums are sent quantised (which a linear is told of by its batch) or are to be the same for
    every number of tokens.
    """
    module = sys.modules.get(MODULE)
    skips = getattr(module, "should_skip_mlp_all_reduce", None)
    pass_of = getattr(module, "get_forward", None)
    options = module.get_exec() if hasattr(module, "get_exec") else None
    if any(one is not None and one is not False for one in more) or (batch is not None and options is None):
        return "its caller asks for more than the sum"
    if batch is not None and options.comm.enable_quant_communications:
        return "its sums are sent quantised"
    if options is not None and options.deterministic.enable_deterministic_inference:
        return "the server is deterministic for every number of tokens, which Stretto's plans are not"
    if getattr(layer, "use_dp_attention_reduce", False) or getattr(layer, "use_decode_attn_tp", False):
        return "it is of data-parallel attention"
    if (skips and skips()) or (pass_of and getattr(pass_of(), "sp_active", False)):
        return "its forward pass leaves the sum to others"
    return None


def group_of(layer):
    """The ranks that the layer's input is dealt to, a ProcessGroup; None: there are none."""
    group = getattr(layer, "tp_group", None)
    if group is None:
        from sglang.srt.distributed import get_tp_group
        group = get_tp_group()
    return getattr(group, "device_group", None)


def forward(original, layer, input_, *arguments, **named):
    """Around RowParallelLinear.forward(input_, ...): who asks for more than its sum gets the original."""
    from stretto.torch import frameworks
    more = [one for name, one in named.items() if name != "forward_batch"]
    reason = reason_against(layer, (*arguments, *more), named.get("forward_batch"))
    if reason is None:
        group = group_of(layer)
        if group is None:
            reason = "it has no process group"
        elif group.size() > 1:  # one rank has no sum
            y = frameworks.row_parallel(layer, input_, group.group_name)
            if y is not None:
                return y, (layer.bias if layer.skip_bias_add else None)
    if reason is not None:
        frameworks.leave(reason)
    return original(layer, input_, *arguments, **named)
