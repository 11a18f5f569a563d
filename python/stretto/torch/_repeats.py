"""Calls that come again, by the library: it looks at PyTorch's tensors itself, has results made, and enqueues
(stretto/c_repeats.h).

PyTorch lets it by DLPack's C exchange API; for releases without it _checked.py does the same in Python.
"""

import ctypes
import functools
from ctypes import c_int, c_int32, c_int64, c_size_t, c_void_p, py_object

import torch

from .._library import Sized, function_of, library

ATTRIBUTE, CAPSULE = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"


class ExchangeApi(ctypes.Structure):
    """DLPack's, of version 1: a table of functions."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", c_void_p), ("allocate", c_void_p),
                ("from_object", c_void_p), ("to_object", c_void_p), ("view", c_void_p), ("current_stream", c_void_p)]


# What stretto_objects has of Python, in its order; `view` is PyTorch's.
OF_PYTHON = {"clear": "PyErr_Clear", "length": "PyTuple_Size", "item": "PyTuple_GetItem", "list": "PyTuple_New",
             "put": "PyTuple_SetItem", "type": "PyObject_Type", "call": "PyObject_Call", "keep": "Py_IncRef",
             "drop": "Py_DecRef", "fail": "PyErr_SetString", "unlock": "PyEval_SaveThread",
             "lock": "PyEval_RestoreThread"}


class CObjects(Sized):
    _fields_ = [("size", c_size_t), ("view", c_void_p), *[(name, c_void_p) for name in OF_PYTHON],
                ("types", c_void_p * 2), ("none", c_void_p), ("usage_error", c_void_p), ("system_fault", c_void_p)]


class CRepeat(Sized):
    _fields_ = [("size", c_size_t), ("run", c_void_p), ("operation", c_void_p), ("rows", c_int64),
                ("tensors", c_void_p), ("count", c_size_t), ("inputs", c_void_p), ("places", ctypes.POINTER(c_int32)),
                ("outputs", c_void_p), ("make", c_void_p), ("arguments", c_void_p)]


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
    """What Python does; None: PyTorch has no such API."""
    view = _view()
    if not view:
        return None
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p) for name in OF_PYTHON.values()]
    return CObjects(view, *functions, (c_void_p * 2)(id(torch.Tensor), id(torch.nn.Parameter)), id(None),
                    id(ValueError), id(RuntimeError))


# Name behind stretto_repeats_ -> (result, arguments)
FUNCTIONS = {"make": (c_int, [c_void_p] * 2), "close": (c_int, [c_void_p]), "add": (c_int, [c_void_p] * 2),
             "takes": (c_int, [c_void_p, py_object]),
             "call": (py_object, [c_void_p, py_object, py_object, c_void_p])}


@functools.lru_cache(maxsize=None)
def _functions():
    """The library's, called with Python's lock."""
    loaded = ctypes.PyDLL(library().path)
    for name, (result, arguments) in FUNCTIONS.items():
        function = function_of(loaded, f"stretto_repeats_{name}")
        function.argtypes, function.restype = arguments, result
        setattr(loaded, name, function)
    return loaded


class Repeats:
    """Calls of one operator, alike but for their tensors. call(at, inputs, outputs or None, stream) gives outputs, or
    None: it cannot come again.
    """

    looks_at_results = True  # and does not take those that lie elsewhere than the first call's

    def __init__(self):
        self.at, at = None, c_void_p()
        self._functions = _functions()
        self._require(self._functions.make(ctypes.addressof(objects()), ctypes.addressof(at)))
        self.at, self.call = at.value, self._functions.call

    def add(self, enqueue, handle, rows, array, inputs, places, outputs, make, arguments):
        """A call that was made by enqueue(handle, rows, array, ...). `places` of inputs are numbers of `array`'s
        tensors, or say why they are none; outputs are the last of them, and make(*arguments) makes each.
        """
        made = CRepeat(ctypes.cast(enqueue, c_void_p), handle, rows, ctypes.addressof(array), len(array), id(inputs),
                       (c_int32 * len(places))(*places), id(outputs), id(make), id(arguments))
        self._require(self._functions.add(self.at, ctypes.addressof(made)))

    def takes(self, inputs):
        """Whether a call of such inputs may come again."""
        return self._functions.takes(self.at, inputs) == 1

    @staticmethod
    def _require(status):
        if status != 0:
            library().fail(status)

    def __del__(self):
        if self.at:
            self._functions.close(self.at)
