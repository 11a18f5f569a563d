"""Tensors on both sides of the binding: the caller's are checked, Stretto's are lent by DLPack."""

import ctypes
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class View:
    """Where the rows of a tensor of somebody's lie."""

    address: int
    rows: int
    cols: int
    row_stride: int  # elements
    dtype: str
    device: str  # "cpu" or "cuda:0"

    def require(self, name, shape, dtype):
        """Raises ValueError unless it is of this type, and has so many columns, and so many rows or more."""
        if self.cols != shape[1] or self.rows < shape[0]:
            raise ValueError(f"tensor {name} has shape ({self.rows}, {self.cols}); {list(shape)} is needed")
        if self.dtype != dtype:
            raise ValueError(f"tensor {name} is {self.dtype}; {dtype} is needed")


def rows_of(name, shape, strides):
    """(rows, columns, elements from row to row): what leads the columns counts as rows."""
    if not shape:
        raise ValueError(f"tensor {name} is a single number; rows and columns are needed")
    cols = shape[-1]
    rows = math.prod(shape[:-1])
    strides = [stride for size, stride in zip(shape, strides) if size != 1]
    sizes = [size for size in shape if size != 1]
    if shape[-1] == 1:
        strides, sizes = strides + [1], sizes + [1]
    if rows == 0 or cols == 0:
        return rows, cols, cols
    gapless = strides[-1] == 1 and all(
        strides[i] == strides[i + 1] * sizes[i + 1] for i in range(len(sizes) - 2))
    if not gapless:
        raise ValueError(f"tensor {name} has gaps inside its rows or an order other than row-major: give "
                         f"{name}.contiguous()")
    return rows, cols, strides[-2] if len(sizes) > 1 else cols


def view_of(tensor, name):
    """The View of a tensor: PyTorch's or one alike, or what has an array interface or speaks DLPack."""
    if hasattr(tensor, "data_ptr") and hasattr(tensor, "stride"):
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        index = getattr(tensor.device, "index", None)
        kind = getattr(tensor.device, "type", str(tensor.device))
        return View(tensor.data_ptr(), *rows_of(name, shape, strides), dtype_text(tensor.dtype),
                    kind if kind == "cpu" else f"{kind}:{index}")
    for attribute, device in (("__cuda_array_interface__", "cuda"), ("__array_interface__", "cpu")):
        if hasattr(tensor, attribute):
            return of_interface(getattr(tensor, attribute), name, device)
    if hasattr(tensor, "__dlpack__"):
        return of_dlpack(tensor, name)
    raise ValueError(f"tensor {name} is a {type(tensor).__name__}: it has neither data_ptr() nor an array "
                     "interface nor __dlpack__; a tensor of PyTorch was expected, or one alike")


INTERFACE_TYPES = {"<f2": "fp16", "<f4": "fp32", "<V2": "bf16"}  # bf16 as ml_dtypes has it


def of_interface(interface, name, device):
    """The View of numpy's array interface, or CUDA's."""
    shape, size = tuple(interface["shape"]), int(interface["typestr"][2:])
    strides = interface.get("strides")
    if strides is None:
        steps = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    elif any(stride % size for stride in strides):
        raise ValueError(f"tensor {name} has strides that are no multiples of its elements")
    else:
        steps = [stride // size for stride in strides]
    dtype = INTERFACE_TYPES.get(interface["typestr"], interface["typestr"])
    where = device if device == "cpu" else f"{device}:None"
    return View(interface["data"][0], *rows_of(name, shape, steps), dtype, where)


def of_dlpack(tensor, name):
    """The View of what speaks DLPack; the tensor itself keeps the memory."""
    kind, index = tensor.__dlpack_device__()
    device = {1: "cpu", 3: "cpu", DLPACK_CUDA: f"cuda:{index}"}.get(int(kind), f"DLPack's {int(kind)}")
    capsule = tensor.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = DLManagedTensor.from_address(pointer_of(capsule, CAPSULE_NAME)).dl_tensor
    shape = tuple(found.shape[i] for i in range(found.ndim))
    steps = [found.strides[i] if found.strides else math.prod(shape[i + 1:])
             for i in range(found.ndim)]
    kinds = {value: key for key, value in DLPACK_TYPES.items()}
    dtype = kinds.get((found.dtype.code, found.dtype.bits), f"DLPack's {found.dtype.code}")
    return View((found.data or 0) + found.byte_offset, *rows_of(name, shape, steps), dtype, device)


def on_cpu(tensor, name):
    """The View of a tensor in ordinary memory. Raises ValueError."""
    view = view_of(tensor, name)
    if view.device != "cpu":
        raise ValueError(f"tensor {name} is on {view.device}; one in ordinary memory is needed")
    return view


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
