"""Finds and loads libstretto.so, and declares its functions as include/stretto/c.h has them."""

import ctypes
import functools
import os
import pathlib
from ctypes import (POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64,
                    c_void_p)

from . import _wheels

C_VERSION = 3
NAME = "libstretto.so"
HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
# Installed, the package knows its own folder only.
IN_CHECKOUT = (CHECKOUT / "python" / "stretto") == HERE and (CHECKOUT / "CMakeLists.txt").is_file()


class LibraryNotFound(ImportError):
    """There is no libstretto.so; says where it was sought."""


class Sized(ctypes.Structure):
    """A struct of c.h: the library takes from its first field which version of it this is."""

    def __init__(self, *fields):
        super().__init__(ctypes.sizeof(self), *fields)


class COperator(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("graph", c_char_p), ("sizes", c_char_p),
                ("ranks", c_int32), ("dtype", c_char_p)]


class CTensorInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("held", c_char_p), ("is_output", c_int32),
                ("rows", c_int64), ("cols", c_int64), ("dtype", c_char_p)]


class CCallTensor(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("index", c_int32), ("rank", c_int32),
                ("address", c_uint64), ("row_stride", c_int64)]


class CPlanRequest(Sized):
    _fields_ = [("size", c_size_t), ("op", POINTER(COperator)), ("schedule", c_char_p),
                ("serves", c_int32), ("machine", c_char_p)]


class COperationRequest(Sized):
    _fields_ = [("size", c_size_t), ("op", POINTER(COperator)), ("serves", c_int32),
                ("schedule", c_char_p), ("measure_ms", c_double), ("shared_results", c_int32)]


EXCHANGE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)


class CContextRequest(Sized):
    _fields_ = [("size", c_size_t), ("timeout_s", c_double), ("rank", c_int32), ("ranks", c_int32),
                ("gpu", c_int32), ("exchange", EXCHANGE), ("user", c_void_p), ("workspace_bytes", c_uint64),
                ("workspace_grows", c_int32), ("free_sms", c_int32), ("orders_streams", c_int32)]


# Name -> (result, arguments). Functions of result "status" return an error's class.
STATUS = "status"
FUNCTIONS = {
    "stretto_c_version": (c_int, []),
    "stretto_version": (c_char_p, []),
    "stretto_last_error": (c_char_p, []),
    "stretto_tensor_count": (STATUS, [POINTER(COperator), POINTER(c_int32)]),
    "stretto_tensor_of": (STATUS, [POINTER(COperator), c_int32, c_int32, c_int32,
                                   POINTER(CTensorInfo)]),
    "stretto_plan_make": (STATUS, [POINTER(CPlanRequest), POINTER(c_void_p)]),
    "stretto_plan_close": (STATUS, [c_void_p]),
    "stretto_plan_rows": (STATUS, [c_void_p, POINTER(c_int64)]),
    "stretto_plan_tensor": (STATUS, [c_void_p, c_int64, c_int32, c_int32, POINTER(CTensorInfo)]),
    "stretto_plan_schedule": (STATUS, [c_void_p, POINTER(c_char_p), POINTER(c_char_p)]),
    "stretto_plan_predict": (STATUS, [c_void_p, POINTER(c_double)]),
    "stretto_plan_check": (STATUS, [c_void_p, POINTER(c_int64), POINTER(c_char_p)]),
    "stretto_plan_workspace": (STATUS, [c_void_p, POINTER(c_uint64)]),
    "stretto_plan_text": (STATUS, [c_void_p, POINTER(c_char_p)]),
    "stretto_plan_execute": (STATUS, [c_void_p, c_int64, POINTER(CCallTensor), c_size_t]),
    "stretto_plan_bad_ids": (STATUS, [c_void_p, POINTER(c_uint64)]),
    "stretto_context_open": (STATUS, [POINTER(CContextRequest), POINTER(c_void_p)]),
    "stretto_context_close": (STATUS, [c_void_p]),
    "stretto_context_rank": (c_int32, [c_void_p]),
    "stretto_context_ranks": (c_int32, [c_void_p]),
    "stretto_context_gpu": (c_int32, [c_void_p]),
    "stretto_context_workspace": (STATUS, [c_void_p, POINTER(c_uint64)]),
    "stretto_context_allocate_shared": (STATUS, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "stretto_operation_make": (STATUS, [c_void_p, POINTER(COperationRequest), POINTER(c_void_p)]),
    "stretto_operation_close": (STATUS, [c_void_p]),
    "stretto_operation_rows": (STATUS, [c_void_p, POINTER(c_int64)]),
    "stretto_operation_tensor": (STATUS, [c_void_p, c_int64, c_int32, POINTER(CTensorInfo)]),
    "stretto_operation_prepare": (STATUS, [c_void_p, c_int64]),
    "stretto_operation_learn": (STATUS, [c_void_p, c_double, POINTER(c_int32)]),
    "stretto_operation_schedule": (STATUS, [c_void_p, c_int64, POINTER(c_char_p)]),
    "stretto_operation_reason": (STATUS, [c_void_p, c_int64, POINTER(c_char_p)]),
    "stretto_operation_workspace": (STATUS, [c_void_p, POINTER(c_uint64)]),
    "stretto_operation_runs_per_graph": (STATUS, [c_void_p, c_int64, POINTER(c_int32)]),
    "stretto_operation_run": (STATUS, [c_void_p, c_int64, POINTER(CCallTensor), c_size_t, c_void_p]),
    "stretto_operation_run_at": (STATUS, [c_void_p, c_uint64, c_int64, POINTER(CCallTensor), c_size_t,
                                          c_void_p]),
    "stretto_operation_finish": (STATUS, [c_void_p]),
    "stretto_operation_error": (STATUS, [c_void_p, POINTER(c_char_p)]),
    "stretto_operation_copied": (STATUS, [c_void_p, POINTER(c_uint64)]),
    "stretto_operation_bad_ids": (STATUS, [c_void_p, POINTER(c_uint64)]),
}


class Library:
    """The functions of libstretto.so, without their prefix: what fails raises."""

    def __init__(self, path):
        try:
            self._loaded = ctypes.CDLL(os.fspath(path))
        except OSError as error:
            raise LibraryNotFound(f"cannot load {path}: {error}") from None
        version_of = getattr(self._loaded, "stretto_c_version", None)
        found = version_of() if version_of else 0
        if found != C_VERSION:
            raise LibraryNotFound(f"{path} speaks version {found} of stretto/c.h, this package "
                                  f"version {C_VERSION}: take both from one checkout or wheel")
        self.path = os.fspath(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = function_of(self._loaded, name)
            function.argtypes = arguments
            function.restype = c_int if result is STATUS else result
            checked = functools.partial(self._call, function) if result is STATUS else function
            setattr(self, name[len("stretto_"):], checked)
        # stretto_operation_run, unchecked: returns a status, for fail(). Its arguments are words all, of which
        # ctypes converts plain integers fastest.
        self.enqueue = function_of(self._loaded, "stretto_operation_run")
        self.enqueue.argtypes, self.enqueue.restype = [c_void_p] * 5, c_int

    def _call(self, function, *arguments):
        status = function(*arguments)
        if status != 0:
            self.fail(status)

    def fail(self, status):
        """Raises what the last function said, which returned this."""
        what = self.last_error().decode(errors="replace")
        raise ValueError(what) if status == 2 else RuntimeError(what)


def function_of(loaded, name):
    """A function of a loaded library, a new object each time. Raises LibraryNotFound: it is older than this package."""
    try:
        return loaded[name]
    except AttributeError:
        raise LibraryNotFound(f"{loaded._name} has no {name}: it is older than this package; {_right_one()}") from None


def _right_one():
    if os.environ.get("STRETTO_LIBRARY"):
        return "STRETTO_LIBRARY names it: build it anew from the package's checkout, or name another"
    if IN_CHECKOUT:
        return "./dev build release builds it anew, and other builds likewise"
    return "pip install --force-reinstall stretto brings both of one release"


def places():
    """Where the library is sought, in this order."""
    chosen = os.environ.get("STRETTO_LIBRARY")
    if chosen:
        return [pathlib.Path(chosen)]
    return [HERE / NAME, *(build / "src" / "c" / NAME for build in builds())]


def builds():
    """The builds of the checkout that this package lies in, if it does, the best first."""
    names = ("release", "cuda", "dev", "test") if IN_CHECKOUT else ()
    return [CHECKOUT / "build" / name for name in names]


def find_library():
    """The path of libstretto.so: STRETTO_LIBRARY, beside this package, in the checkout's build.

    Raises LibraryNotFound, an ImportError, which says where it was sought.
    """
    for path in places():
        if path.is_file():
            return path
    sought = ", ".join(str(path) for path in places())
    if os.environ.get("STRETTO_LIBRARY"):
        right = "STRETTO_LIBRARY names it; without it the package takes its own"
    elif IN_CHECKOUT:
        right = "./dev build release makes it; STRETTO_LIBRARY names another"
    else:
        right = ("this installation has lost it, pip install --force-reinstall stretto brings it "
                 "back; STRETTO_LIBRARY names another")
    raise LibraryNotFound(f"no {NAME} ({sought}): {right}")


@functools.lru_cache(maxsize=None)
def library():
    """The library, loaded at the first call."""
    _wheels.preload()
    return Library(find_library())


def version() -> str:
    """The library's version, "0.1.0"."""
    return library().version().decode()


def text(value, name):
    """A Python string for a `const char*`."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}; a string was expected")
    if "\0" in value:
        raise ValueError(f"{name} {value!r} holds a zero byte")
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{name} {value!r} is no text: it holds half a character") from None


def whole(value, name):
    """A whole number for an `int64_t`: what operator.index() takes."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} is {value!r}; a whole number was expected")
    number = value.__index__()
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name}={number} is too {'large' if number > 0 else 'small'}")
    return number


def rank_number(value):
    """A rank for an `int32_t`; the library knows how many there are."""
    number = whole(value, "rank")
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"rank={number} is too {'large' if number > 0 else 'small'}")
    return number


def count_of(value, name, what):
    """A whole number of something, from 0 on."""
    number = whole(value, name)
    if number < 0:
        raise ValueError(f"{name} is {number}; {what} from 0 on were expected")
    return number


def num_bytes(value, name):
    """For a `uint64_t`."""
    return count_of(value, name, "bytes")


def num_sms(value, name):
    """For an `int32_t`; the library knows how many there are."""
    return min(count_of(value, name, "SMs"), 2**31 - 1)


def seconds(value, name):
    """A number for a `double`."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise ValueError(f"{name} is {value!r}; a number of seconds was expected")
    return float(value)


def budget(measure_ms):
    """Milliseconds as stretto_operation_request has them: 0 is the library's own choice, less is never."""
    if measure_ms is None:
        return 0.0
    if isinstance(measure_ms, (bool, str, bytes)) or not hasattr(measure_ms, "__float__") or not (
            0 <= float(measure_ms) <= 60000):
        raise ValueError(f"measure_ms is {measure_ms!r}; a number of milliseconds from 0 to 60000, or None, was "
                         "expected")
    return float(measure_ms) or -1.0


def learning_budget(budget_ms):
    """Milliseconds for learn()."""
    if isinstance(budget_ms, (bool, str, bytes)) or not hasattr(budget_ms, "__float__") or not (
            0 <= float(budget_ms) <= 3600000):
        raise ValueError(f"budget_ms is {budget_ms!r}; a number of milliseconds from 0 to 3600000 was expected")
    return float(budget_ms)


def dtype_text(dtype):
    """"bf16", or torch.bfloat16 and its kin, as the library calls it."""
    names = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32",
             "torch.int32": "i32", "torch.int64": "i64"}
    return names.get(str(dtype), str(dtype))


def serves(rows):
    """What `rows` means: 1 for "bucket", 0 for "fixed"."""
    if rows not in ("bucket", "fixed"):
        raise ValueError(f'rows={rows!r}; it is "bucket" (any number up to the largest) or "fixed"')
    return int(rows == "bucket")
