"""Calls that come again, by the library: it looks at PyTorch's tensors itself, and enqueues (stretto/c_repeats.h).

PyTorch lets it by DLPack's C exchange API; for releases without it _checked.py does the same in Python.
"""

import ctypes
import functools
from ctypes import c_int, c_int32, c_int64, c_size_t, c_void_p, py_object

import torch

from .._library import Sized, library

OTHERWISE = 1  # what a function returns for tensors that are not as the first call's were
ATTRIBUTE, CAPSULE = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"


class ExchangeApi(ctypes.Structure):
    """DLPack's, of version 1: a table of functions."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", c_void_p), ("allocate", c_void_p),
                ("from_object", c_void_p), ("to_object", c_void_p), ("view", c_void_p), ("current_stream", c_void_p)]


class CObjects(Sized):
    _fields_ = [("size", c_size_t), ("view", c_void_p), ("clear", c_void_p), ("item", c_void_p), ("type", c_void_p),
                ("drop", c_void_p), ("unlock", c_void_p), ("lock", c_void_p), ("types", c_void_p * 2)]


class CRequest(Sized):
    _fields_ = [("size", c_size_t), ("run", c_void_p), ("operation", c_void_p), ("rows", c_int64),
                ("tensors", c_void_p), ("count", c_size_t), ("objects", ctypes.POINTER(CObjects)), ("inputs", c_void_p),
                ("places", ctypes.POINTER(c_int32)), ("num_inputs", c_size_t), ("outputs", c_void_p),
                ("num_outputs", c_size_t)]


def _view():
    """PyTorch's function that lends a DLTensor; None: it has none."""
    capsule = getattr(torch.Tensor, ATTRIBUTE, None)
    if capsule is None:
        return None
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = c_void_p, [py_object, ctypes.c_char_p]
    api = ExchangeApi.from_address(pointer_of(capsule, CAPSULE))
    return api.view if api.major == 1 else None


@functools.lru_cache(maxsize=None)
def objects():
    """What Python does, as stretto_objects has it; None: PyTorch is too old."""
    view = _view()
    if not view:
        return None
    names = ("PyErr_Clear", "PyTuple_GetItem", "PyObject_Type", "Py_DecRef", "PyEval_SaveThread",
             "PyEval_RestoreThread")
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p) for name in names]
    return CObjects(view, *functions, (c_void_p * 2)(id(torch.Tensor), id(torch.nn.Parameter)))


@functools.lru_cache(maxsize=None)
def _functions():
    """The library's, called with Python's lock."""
    loaded = ctypes.PyDLL(library().path)
    for name, arguments in (("make", [c_void_p] * 2), ("close", [c_void_p]), ("takes", [c_void_p, py_object]),
                            ("run", [c_void_p, py_object, py_object, c_void_p])):
        function = loaded[f"stretto_repeat_{name}"]
        function.argtypes, function.restype = arguments, c_int
        setattr(loaded, name, function)
    return loaded


class Repeat:
    """What the library keeps of a call: it runs enqueue(handle, rows, array, ...) again. `places` of inputs are numbers
    of `array`'s tensors, or say why they are none; outputs are the last of them.
    """

    def __init__(self, enqueue, handle, rows, array, inputs, places, outputs):
        functions, self._at = _functions(), c_void_p()
        request = CRequest(ctypes.cast(enqueue, c_void_p), handle, rows, ctypes.addressof(array), len(array),
                           ctypes.pointer(objects()), id(inputs), (c_int32 * len(places))(*places), len(inputs),
                           id(outputs), len(outputs))
        status = functions.make(ctypes.addressof(request), ctypes.addressof(self._at))
        if status != 0:
            library().fail(status)
        self._close, self._takes = functions.close, functions.takes
        self.at, self.run = self._at.value, functions.run  # run(at, inputs, outputs, stream): a status

    def takes(self, inputs):
        """Whether run() would take such inputs."""
        return self._takes(self._at, inputs) == 0

    def __del__(self):
        if self._at:
            self._close(self._at)
