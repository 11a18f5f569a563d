"""Where the tensors of a caller lie, whoever made them."""

import ctypes
import dataclasses
import functools
import math

from ._library import dtype_text, whole

DLPACK_CUDA = 2
DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
CAPSULE_NAME = b"dltensor"
DLPACK_TYPES = {"bf16": (4, 16), "fp16": (2, 16), "fp32": (2, 32), "i32": (0, 32),
                "i64": (0, 64)}  # code, bits


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
    device: str  # "cpu" or "cuda:0"; "cuda:None": on a GPU, and its maker does not say which
    is_writable: bool = True

    def require(self, name, shape, dtype, is_output=False):
        """Raises ValueError unless it is of this type, and has so many columns, and so many rows or more."""
        if is_output and not self.is_writable:
            raise ValueError(f"tensor {name} is an output, and this array is read-only: give a copy")
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
    row_stride = strides[-2] if len(sizes) > 1 else cols
    if row_stride == 0:  # which C takes for rows without gaps
        raise ValueError(f"tensor {name} has the same memory for all of its rows: give {name}.contiguous()")
    return rows, cols, row_stride


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
            found = of_interface(getattr(tensor, attribute), name, device)
            if device == "cuda" and hasattr(tensor, "__dlpack_device__"):
                return dataclasses.replace(found, device=f"cuda:{int(tensor.__dlpack_device__()[1])}")
            return found
    if hasattr(tensor, "__dlpack__"):
        return of_dlpack(tensor, name)
    raise ValueError(f"tensor {name} is a {type(tensor).__name__}: it has neither data_ptr() nor an array "
                     "interface nor __dlpack__; a tensor of PyTorch was expected, or one alike")


INTERFACE_TYPES = {"<f2": "fp16", "<f4": "fp32", "<i4": "i32", "<i8": "i64", "<V2": "bf16"}  # bf16 as ml_dtypes has it


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
    address, is_read_only = interface["data"]
    return View(address, *rows_of(name, shape, steps), dtype, where, not is_read_only)


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
    if found.dtype.lanes != 1:
        raise ValueError(f"tensor {name} has elements of {found.dtype.lanes} numbers each; one is needed")
    dtype = kinds.get((found.dtype.code, found.dtype.bits), f"DLPack's {found.dtype.code}")
    return View((found.data or 0) + found.byte_offset, *rows_of(name, shape, steps), dtype, device)


@dataclasses.dataclass(frozen=True)
class Device:
    type: str
    index: int


BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "i32": 4, "i64": 8}


class SharedTensor:
    """A matrix without gaps in GPU memory that the other ranks reach, until its context closes.

    Operations take it as it is. `torch.as_tensor(shared, device="cuda").view(torch.bfloat16)` is a tensor on it:
    CUDA's array interface has no bf16, so that it says int16 there.
    """

    def __init__(self, address: int, rows: int, cols: int, dtype: str, gpu: int):
        self.shape, self.dtype, self.device, self._address = (rows, cols), dtype, Device("cuda", gpu), address

    def data_ptr(self) -> int:
        return self._address

    def stride(self):
        return self.shape[1], 1

    @property
    def __cuda_array_interface__(self):
        typestr = {"bf16": "<i2", "fp16": "<f2", "fp32": "<f4", "i32": "<i4", "i64": "<i8"}[self.dtype]
        return {"shape": self.shape, "typestr": typestr, "data": (self._address, False), "strides": None, "version": 3}


@functools.lru_cache(maxsize=None)
def _driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def gpu_of(address):
    """The number of the GPU that memory is on, by CUDA's driver; None: it knows nothing of it."""
    found, driver = ctypes.c_int(-1), _driver()
    if driver is None:
        return None
    status = driver.cuPointerGetAttribute(ctypes.byref(found), DEVICE_ORDINAL, ctypes.c_uint64(address))
    return found.value if status == 0 and found.value >= 0 else None


def on_gpu(tensor, name, gpu):
    """The View of a tensor on this GPU. Raises ValueError."""
    view = view_of(tensor, name)
    if view.device == "cuda:None":
        found = gpu_of(view.address)
        view = dataclasses.replace(view, device=f"cuda:{gpu if found is None else found}")
    if view.device != f"cuda:{gpu}":
        raise ValueError(f"tensor {name} is on {view.device}; this rank's GPU is cuda:{gpu}")
    return view


def on_cpu(tensor, name):
    """The View of a tensor in ordinary memory. Raises ValueError."""
    view = view_of(tensor, name)
    if view.device != "cpu":
        raise ValueError(f"tensor {name} is on {view.device}; one in ordinary memory is needed")
    return view
