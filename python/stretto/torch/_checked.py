"""Calls that come again, in Python: what _repeats.py asks of the library, where PyTorch does not let it look."""

import ctypes

import torch

from .._library import library
from ..operations import ADDRESS, WORDS

# What a tensor of a call is where it is no input of the graph: one that lies right behind the tensor before it, of
# which the input is made; one that is added to the result.
BEHIND, ADDED = -1, -2
PLAIN = (torch.Tensor, torch.nn.Parameter)
ALIGNED = 15


class Checked:
    """As Repeats."""

    at, looks_at_results = None, False

    def __init__(self):
        self._made = {}  # by what tensors are

    def add(self, *made):
        inputs = made[4]
        self._made[_key(inputs)] = _Made(*made)

    def takes(self, inputs):
        made = self._find(inputs)
        return made is not None and made.noted(inputs) is not None

    def call(self, _, inputs, outputs, stream):
        made = self._find(inputs)
        return made and made.run(inputs, outputs, stream)

    def _find(self, inputs):
        return self._made.get(_key(inputs)) if all([type(one) in PLAIN for one in inputs]) else None


def _key(tensors):
    return (tensors[0].dtype, *[one.shape for one in tensors])


class _Made:
    def __init__(self, enqueue, handle, rows, array, inputs, places, outputs, make, arguments):
        self._enqueue, self._handle, self._rows, self._array = enqueue, handle, rows, array
        self._words = (ctypes.c_uint64 * (WORDS * len(array))).from_buffer(array)
        self._inputs = [(one.dtype, one.shape, place, WORDS * place + ADDRESS, _num_bytes(one))
                        for one, place in zip(inputs, places)]
        first = len(array) - len(outputs)
        self._outputs = [(one.dtype, one.shape, WORDS * (first + index) + ADDRESS, _num_bytes(one))
                         for index, one in enumerate(outputs)]
        self._make, self._arguments, self._index = make, arguments, inputs[0].get_device()
        self._first = ctypes.addressof(array)

    def run(self, inputs, outputs, stream):
        taken = self.noted(inputs)
        if taken is None:
            return None
        if outputs is None:
            outputs = tuple([self._make(*one) for one in self._arguments])
        if len(outputs) != len(self._outputs):
            return None
        for one, (dtype, shape, word, num_bytes) in zip(outputs, self._outputs):
            if type(one) not in PLAIN or not self._is_alike(one, dtype, shape):
                return None
            begin = one.data_ptr()
            end = begin + num_bytes
            if begin & ALIGNED or any([begin < other and at < end for at, other in taken]):
                return None
            taken.append((begin, end))
            self._words[word] = begin
        status = self._enqueue(self._handle, self._rows, self._first, len(self._array), stream)
        if status != 0:
            library().fail(status)
        return outputs

    def _is_alike(self, one, dtype, shape):
        return (one.dtype is dtype and one.get_device() == self._index and one.shape == shape and
                one.is_contiguous())

    def noted(self, inputs):
        """From where to where inputs lie; None: they are not as the call's were."""
        taken, end = [], 0
        for one, (dtype, shape, place, word, num_bytes) in zip(inputs, self._inputs):
            if not self._is_alike(one, dtype, shape):
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
