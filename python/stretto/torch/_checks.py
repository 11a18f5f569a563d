"""What operators ask of their tensors, in one line each. Strides are free: gaps are copied away."""

import torch

try:
    from torch.distributed.tensor import DTensor
except ImportError:  # PyTorch before 2.5
    from torch.distributed._tensor import DTensor


def require(condition, op, what):
    if not condition:
        raise ValueError(f"{op}: {what}")


def tensors(op, /, **given):
    """A list is one argument, of which each is a tensor."""
    for name, one in given.items():
        many = one if isinstance(one, (list, tuple)) else [one]
        for index, each in enumerate(many):
            if not isinstance(each, torch.Tensor):
                label = name if len(many) == 1 else f"{name} {index}"
                raise TypeError(f"{op}: {label} is {'None' if each is None else 'of type ' + type(each).__name__}; "
                                "a tensor was expected")
            if isinstance(each, DTensor):
                label = name if len(many) == 1 else f"{name} {index}"
                raise TypeError(f"{op}: {label} is a DTensor, and operators take what a rank has: give its to_local()")


def numbers(op, kind, /, **given):
    """Arguments of a kind: int, float, str or bool. PyTorch's own words for them are many lines."""
    kinds = {int: (int, torch.SymInt), float: (int, float, torch.SymInt, torch.SymFloat), str: str,
             bool: (bool, int, torch.SymBool)}[kind]
    for name, one in given.items():
        if not isinstance(one, kinds):
            what = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}[kind]
            raise TypeError(f"{op}: {name} is {one!r}; {what} was expected")


def whole_or_none(op, /, **given):
    """Arguments that may be left out."""
    numbers(op, int, **{name: one for name, one in given.items() if one is not None})


def are_whole(numbers):
    return not numbers.is_floating_point() and not numbers.is_complex() and numbers.dtype != torch.bool


def shape_text(tensor):
    return f"[{', '.join(str(size) for size in tensor.shape)}]"


def matching(op, x, **others):
    """All of the same dtype and device as x."""
    require(x.dim() >= 2, op, f"x is {shape_text(x)}; [..., rows, columns] was expected")
    require(x.is_floating_point(), op, f"x is {x.dtype}; a floating type was expected")
    require(x.element_size() > 1, op, f"x is {x.dtype}, whose products need scales, and there is no place for them: "
            "give it in bf16 or fp16")
    for name, tensor in {"x": x, **others}.items():
        require(tensor.layout == torch.strided, op,
                f"{name} is {str(tensor.layout).replace('torch.', '')}; a dense tensor was expected")
        require(tensor.dtype == x.dtype, op,
                f"{name} is {tensor.dtype} and x is {x.dtype}: they must be alike")
        require(tensor.device == x.device, op, f"{name} is on {tensor.device} and x on {x.device}")


def weights(op, x, columns, many, biases, name="weight"):
    """Weights [N, columns of x], and as many biases [N] or none."""
    require(len(many) > 0, op, "no weight is given")
    labels = [name if len(many) == 1 else f"{name} {index}" for index in range(len(many))]
    matching(op, x, **dict(zip(labels, many)))
    for label, weight in zip(labels, many):
        require(weight.dim() == 2 and weight.shape[1] == columns, op,
                f"{label} is {shape_text(weight)}; [N, {columns}] goes with x {shape_text(x)}")
    require(len(biases) in (0, len(many)), op,
            f"{len(biases)} biases for {len(many)} weights; one for each, or none")
    for label, weight, bias in zip(labels, many, biases):
        matching(op, x, **{f"the bias of {label}": bias})
        require(bias.dim() == 1 and bias.shape[0] == weight.shape[0], op,
                f"the bias of {label} is {shape_text(bias)}; [{weight.shape[0]}] goes with "
                f"{label} {shape_text(weight)}")


def outputs(op, out, *results):
    """What the caller gives as `out` of an operator with these results: a tensor for each; None: nothing is given."""
    if out is None:
        return None
    given = ["a tensor"] if isinstance(out, torch.Tensor) else list(out)
    require(len(given) == len(results), op,
            f"out is {given[0] if isinstance(out, torch.Tensor) else len(given)}; a tuple of {len(results)} tensors "
            f"was expected, for {', '.join(results[:-1])} and {results[-1]}")
    return tuple(given)


def output(op, name, out, shape, dtype, device):
    """An `out` that the caller gives."""
    require(tuple(out.shape) == tuple(shape), op,
            f"{name} is {shape_text(out)}; [{', '.join(map(str, shape))}] is what comes")
    require(out.dtype == dtype and out.device == device, op,
            f"{name} is {out.dtype} on {out.device}; {dtype} on {device} is what comes")
    require(out.is_contiguous(), op, f"{name} has gaps or another order than row-major: give a contiguous one")


def apart(op, name, out, inputs):
    """It must not share memory with an input: ranks read those meanwhile."""
    for other, tensor in inputs.items():
        if tensor is None:
            continue
        begin, end = span(tensor)
        out_begin, out_end = span(out)
        require(end <= out_begin or out_end <= begin, op, f"{name} overlaps {other}: give it memory of its own")


def span(tensor):
    """The first byte of a tensor and the one behind its last."""
    if tensor.numel() == 0:
        return 0, 0
    begin = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size()
