"""Tensors on both sides of the binding: the caller's are checked, Stretto's are lent by DLPack."""

import ctypes
import math

from ._library import dtype_text, whole

ALIGNMENT = 16  # bytes
DLPACK_CUDA = 2
DLPACK_TYPES = {"bf16": (4, 16), "fp16": (2, 16), "fp32": (2, 32)}  # code, bits


def is_row_major(tensor):
    columns = tensor.shape[1]
    if hasattr(tensor, "stride"):
        strides = tuple(tensor.stride())
        return strides[1] == 1 and (strides[0] == columns or tensor.shape[0] <= 1)
    return bool(tensor.is_contiguous())


def require_on(gpu, tensor, name):
    device = tensor.device
    if getattr(device, "type", str(device)) != "cuda" or getattr(device, "index", None) != gpu:
        raise ValueError(f"tensor {name} is on {device}; this rank's GPU is cuda:{gpu}")


def rows_address(rows, gpu):
    """The address of a row count in GPU memory: a tensor of one int32, or the address itself. Raises ValueError."""
    if not hasattr(rows, "data_ptr"):
        return whole(rows, "rows")
    if str(rows.dtype) not in ("torch.int32", "int32") or math.prod(rows.shape) != 1:
        raise ValueError(f"tensor rows is {rows.dtype} of shape {tuple(rows.shape)}; one int32 is needed")
    require_on(gpu, rows, "rows")
    return rows.data_ptr()


def address_of(tensor, name, shape, dtype, gpu):
    """The address of a tensor like torch's, once it is what the operation needs.

    shape: the rows that it has room for at least, and its columns. Raises ValueError.
    """
    for attribute in ("data_ptr", "shape", "dtype", "device"):
        if not hasattr(tensor, attribute):
            raise ValueError(f"tensor {name} is a {type(tensor).__name__}: it has no {attribute}; "
                             "a tensor of PyTorch was expected, or one alike")
    have = tuple(tensor.shape)
    if len(have) != 2 or have[0] < shape[0] or have[1] != shape[1]:
        raise ValueError(f"tensor {name} has shape {have}; [{shape[0]} or more, {shape[1]}] is needed")
    if dtype_text(tensor.dtype) != dtype:
        raise ValueError(f"tensor {name} is {tensor.dtype}; the operation is {dtype}")
    if not is_row_major(tensor):
        raise ValueError(f"tensor {name} has gaps or another order than row-major: give "
                         f"{name}.contiguous()")
    require_on(gpu, tensor, name)
    address = tensor.data_ptr()
    if address == 0 or address % ALIGNMENT != 0:
        raise ValueError(f"tensor {name} begins at {address:#x}; a multiple of {ALIGNMENT} bytes "
                         "is needed")
    return address


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32),
                ("dtype", DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


CAPSULE_NAME = b"dltensor"


def capsule_of(managed):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(managed), CAPSULE_NAME, None)


def keep_for_ever(*objects):
    """Views look into the struct when they end, which may be after the interpreter itself."""
    for one in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


class GpuTensor:
    """A tensor that an operation owns: `torch.from_dlpack(tensor)` is a view of it, without a copy.

    Views are valid until the operation is closed.
    """

    def __init__(self, address, shape, dtype, gpu, device_type=DLPACK_CUDA):
        self.shape, self.dtype, self.gpu = tuple(shape), dtype, gpu
        self._address = address
        code, bits = DLPACK_TYPES[dtype]
        self._sizes = (ctypes.c_int64 * 2)(*shape)
        self._strides = (ctypes.c_int64 * 2)(shape[1], 1)
        self._managed = DLManagedTensor(
            DLTensor(address, DLDevice(device_type, gpu), 2, DLDataType(code, bits, 1),
                     self._sizes, self._strides, 0), None, None)
        self._is_lent = False

    def data_ptr(self):
        """Its address in GPU memory."""
        return self._address

    def __dlpack_device__(self):
        device = self._managed.dl_tensor.device
        return device.device_type, device.device_id

    def __dlpack__(self, stream=None, dl_device=None, copy=None, **_):
        if copy:
            raise BufferError("a tensor of an operation is lent, not copied: take a view and clone it")
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError(f"a tensor of an operation stays on GPU {self.gpu}: take a view there and move it")
        # Runs and what reads their results are ordered by the streams that the caller names.
        if not self._is_lent:
            keep_for_ever(self._managed, self._sizes, self._strides)
            self._is_lent = True
        return capsule_of(self._managed)

    def __repr__(self):
        return f"GpuTensor(shape={list(self.shape)}, dtype={self.dtype}, gpu={self.gpu})"
