"""Calls that come again, in Python: what _repeats.py asks of the library, where PyTorch does not let it look."""

import ctypes

import torch

from .._library import CCallTensor

# What a tensor of a call is where it is no input of the graph: one that lies right behind the tensor before it, of
# which the input is made; one that is added to the result.
BEHIND, ADDED = -1, -2
PLAIN = (torch.Tensor, torch.nn.Parameter)
OTHERWISE = 1
ALIGNED = 15
_WORDS = ctypes.sizeof(CCallTensor) // 8
_ADDRESS = CCallTensor.address.offset // 8


class Checked:
    """As Repeat."""

    at = 0

    def __init__(self, enqueue, handle, rows, array, inputs, places, outputs):
        self._enqueue, self._handle, self._rows, self._array = enqueue, handle, rows, array
        self._words = (ctypes.c_uint64 * (_WORDS * len(array))).from_buffer(array)
        self._inputs = [(one.dtype, one.shape, place, _WORDS * place + _ADDRESS, _num_bytes(one))
                        for one, place in zip(inputs, places)]
        first = len(array) - len(outputs)
        self._outputs = [(one.dtype, one.shape, _WORDS * (first + index) + _ADDRESS, _num_bytes(one))
                         for index, one in enumerate(outputs)]
        self._index = inputs[0].get_device()
        self._first = ctypes.addressof(array)

    def takes(self, inputs):
        return self._noted(inputs) is not None

    def run(self, _, inputs, outputs, stream):
        taken = self._noted(inputs)
        if taken is None:
            return OTHERWISE
        for one, (dtype, shape, word, num_bytes) in zip(outputs, self._outputs):
            if not self._is_plain(one, dtype, shape):
                return OTHERWISE
            begin = one.data_ptr()
            end = begin + num_bytes
            if begin & ALIGNED or any(begin < other and at < end for at, other in taken):
                return OTHERWISE
            taken.append((begin, end))
            self._words[word] = begin
        return self._enqueue(self._handle, self._rows, self._first, len(self._array), stream)

    def _is_plain(self, one, dtype, shape):
        return (type(one) in PLAIN and one.dtype is dtype and one.get_device() == self._index and one.shape == shape and
                one.is_contiguous())

    def _noted(self, inputs):
        """From where to where inputs lie; None: they are not as the call's were."""
        taken, end = [], 0
        for one, (dtype, shape, place, word, num_bytes) in zip(inputs, self._inputs):
            if not self._is_plain(one, dtype, shape):
                return None
            begin = one.data_ptr()
            if place >= 0:
                if begin & ALIGNED:
                    return None
                self._words[word] = begin
            elif place == BEHIND and begin != end:
                return None
            end = begin + num_bytes
            taken.append((begin, end))
        return taken


def _num_bytes(tensor):
    return tensor.numel() * tensor.element_size()
