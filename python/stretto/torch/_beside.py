"""Collectives that run beside products: on a stream of their own, until somebody waits for the result."""

import torch

# Of a GPU's clock, some microseconds: what comes first has its blocks on the GPU, and of two kernels that may begin at
# the same time the collective has to be that. Behind a product's blocks it would wait for most of them.
HEAD_START = 8000
_streams = {}  # by index of the GPU


def _stream(device):
    if device.index not in _streams:
        _streams[device.index] = torch.cuda.Stream(device, priority=-1)
    return _streams[device.index]


class Beside:
    """A collective that has begun: of _collectives.py, into `out`. What the caller enqueues from now on runs beside it.
    Other collectives of the group come after wait().
    """

    def __init__(self, collective, group, tensor, out):
        self._out, self._side = out, None
        if not tensor.is_cuda:
            collective(group, tensor, out)
            return
        self._tensor = tensor  # whose memory is taken until then
        self._side = _stream(tensor.device)
        with torch.cuda.device(tensor.device):
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                collective(group, tensor, out)
            torch.cuda._sleep(HEAD_START)

    def wait(self):
        """The result, for what is enqueued from now on."""
        if self._side is not None:
            torch.cuda.current_stream(self._out.device).wait_stream(self._side)
            self._tensor = None
        return self._out
