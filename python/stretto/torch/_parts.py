"""Tensors below one another as one."""

import torch


def are_behind(parts):
    """Whether each lies right behind the one before it, as parts of one tensor do."""
    first = parts[0]
    at = first.data_ptr()
    for part in parts:
        if (not part.is_contiguous() or part.data_ptr() != at or
                part.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()):
            return False
        at += part.numel() * part.element_size()
    return True


def joined(parts):
    """Weights or biases below one another: without a copy where they lie so."""
    if len(parts) == 1:
        return parts[0].contiguous()
    if not are_behind(parts):
        return torch.cat(parts)
    size = sum(part.shape[0] for part in parts)
    return parts[0].as_strided((size, *parts[0].shape[1:]), parts[0].stride())
