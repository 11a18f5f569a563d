"""Where calls meet the library: all that this package knows of the binding is in the engines named here."""

from typing import Dict

import torch

from . import _emulator, _gpu, _wanted
from ._refusals import NotServed

# Device type -> what serves tensors there.
ENGINES = {"cpu": _emulator.Engine, "cuda": _gpu.Engine}


def story_of(call, reason):
    """What ranks must say alike of a call."""
    return {"operator": call.op, **dict(call.sizes), "dtype": str(call.dtype).replace("torch.", ""),
            "device": call.device.type, **call.said, "refusal": reason}


def agree(call, group, reason):
    """All ranks make the same call: raises ValueError that names those which do not, and RuntimeError.

    On a GPU only the first call of its kind is compared, unless the group was asked to: later ones wait for nobody
    on the host. What needs a gradient is compared where that is known, and is no other kind.
    """
    story, wanted = story_of(call, reason), _wanted.take(call.op)
    key = tuple(story.items())
    if call.device.type == "cuda" and key in group.agreed and not group.options.compare:
        return
    group.meeting.agree(call.op, story if wanted is None else {**story, _wanted.FIELD: wanted})
    group.agreed.add(key)


def run(call, group, dtype, targets) -> Dict[str, torch.Tensor]:
    """The call's outputs by name. Raises NotServed, on all ranks; RuntimeError."""
    engine = group.engines.get(call.device.type)
    if engine is None:
        engine = group.engines[call.device.type] = ENGINES[call.device.type](group)
    return engine.run(call, dtype, targets)


__all__ = ["ENGINES", "NotServed", "agree", "run"]
