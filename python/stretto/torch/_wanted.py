"""Which gradients a call is to have. Backward exchanges what they need, so ranks have to need the same; operators'
kernels run below autograd, where it does not show, and are told by the functions that call them.

Compiled code tells nothing: what it needs was decided when it was traced. Nor do calls without gradients.
"""

import threading

import torch

FIELD = "what needs a gradient"  # of what ranks say of a call
_told = threading.local()


def say(op, **groups):
    """Before a call of this operator: which of its tensors decide what backward exchanges, by their names."""
    _told.last = None  # of a call that ended before ranks compared it
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    names = [name.replace("_", " ") for name, tensors in groups.items()
             if any(one is not None and one.requires_grad for one in tensors)]
    _told.last = op, " and ".join(names) or "nothing"


def take(op):
    """What was said of this call; None: nothing was."""
    last, _told.last = getattr(_told, "last", None), None
    return last[1] if last and last[0] == op else None
