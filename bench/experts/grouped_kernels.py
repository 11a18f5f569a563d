"""The grouped kernel for bench/experts/grouped_contest.py: compiled by nvcc, launched through the CUDA driver on torch tensors.

What C++ does in src/gpu/grouped_operands.cpp; here it needs no build, and takes turns with PyTorch in one process.
"""

import concurrent.futures
import ctypes
import pathlib
import struct
import subprocess
import tempfile

import torch

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
SOURCE = """#include "stretto/device/grouped_sm90.h"
using namespace stretto::device;
constexpr GroupedConfig kConfig{{.columns = {columns}, .rows = {rows}, .stages = {stages},
                                .ranges = {ranges}, .together = {together}, .gathers = {gathers}, .scatters = {scatters},
                                .follower = Follower::{follower}}};
__constant__ int block[2] = {{layout_of(kConfig).shared_bytes, layout_of(kConfig).threads}};
extern "C" __global__ void __launch_bounds__(layout_of(kConfig).threads, 1)
stretto_grouped(const __grid_constant__ GroupedParams params) {{ grouped_sm90<kConfig>(params); }}
"""
UNIT_ROWS, MOST_UNITS, BAND = 16, 16, 8
STORED_AT_ONCE = (32, 16, 8, 4, 2, 1)
BF16, SWIZZLE_64, SWIZZLE_128, PROMOTE_NONE, PROMOTE_256 = 9, 2, 3, 0, 3  # of the driver
SHARED_BYTES, CLUSTER, CAN_OVERLAP = 8, 4, 6  # a function's attribute, a launch's


class Attribute(ctypes.Structure):
    _fields_ = [("which", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("more", ctypes.c_int * 2),
                ("rest", ctypes.c_byte * 52)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")


def compile_all(sorts, folder):
    """Their files, compiled at the same time."""
    def compile_one(sort):
        words = {key: str(value).lower() for key, value in sort._asdict().items()}
        source = folder / f"{sort.name.replace(' ', '_').replace('/', '_')}_{sort.stages}.cu"
        source.write_text(SOURCE.format(**words), encoding="utf-8")
        cubin = source.with_suffix(".cubin")
        if cubin.exists():
            return cubin
        subprocess.run(["nvcc", "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", f"-I{INCLUDE}",
                        "-o", cubin, source], check=True)
        return cubin

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(sorts, pool.map(compile_one, sorts)))


class Kernels:
    def __init__(self, sorts, folder=None):
        """`folder`: where compiled ones stay, for other processes."""
        torch.zeros(1, device="cuda")  # makes the context
        self.driver = Driver()
        self.functions = {}
        with tempfile.TemporaryDirectory() as own:
            for sort, cubin in compile_all(sorts, pathlib.Path(folder or own)).items():
                self.functions[sort] = self.load(cubin.read_bytes())

    def load(self, code):
        module, function, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.call("cuModuleLoadData", ctypes.byref(module), code)
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"stretto_grouped")
        size = ctypes.c_size_t()
        self.driver.call("cuModuleGetGlobal_v2", ctypes.byref(word), ctypes.byref(size), module, b"block")
        block = (ctypes.c_int * 2)()
        self.driver.call("cuMemcpyDtoH_v2", block, word, size)
        self.driver.call("cuFuncSetAttribute", function, SHARED_BYTES, block[0])
        return function, *block


class Product:
    """One launch: output[target or sorted row] = follower(tokens[source or sorted row] @ weights[expert].T)."""

    def __init__(self, kernels, sort, tokens, weights, output, counts, sources, targets, ahead=None, is_asked=False):
        """`ahead`: the Product that makes `tokens`, is launched ahead of this one and writes none of the rest: counts
        and weights are read before it ends, and where it is_asked() tiles begin as soon as their rows are there."""
        self.driver = kernels.driver
        self.function, self.shared, self.threads = kernels.functions[sort]
        self.tickets = torch.zeros(2, dtype=torch.int32, device="cuda")
        self.keep = (tokens, weights, output, counts, sources, targets)
        experts, rows_of_weights, k = weights.shape
        n = rows_of_weights // sort.halves
        maps = []
        if sort.halves == 2:
            maps.append(self.map(weights, [k, 8, 2, n // 8, experts], [k, n * k, 8 * k, 2 * n * k],
                                 [64, 8, 2, sort.columns // 16, 1]))
        else:
            maps.append(self.map(weights, [k, n, experts], [k, n * k], [64, sort.columns, 1]))
        maps += [self.map(tokens, [k, tokens.shape[0]], [tokens.stride(0)], [64, (units + 1) * UNIT_ROWS])
                 for units in range(MOST_UNITS)]
        at_once = sort.stored_at_once
        maps += [self.map(output, [n, output.shape[0]], [output.stride(0)], [at_once, rows], PROMOTE_NONE,
                          SWIZZLE_64 if at_once == 32 else SWIZZLE_128) for rows in STORED_AT_ONCE]
        stored_columns = sort.columns // sort.halves
        blocks = -(-n // stored_columns)
        self.told = torch.zeros(1 + experts + sources.shape[0] // UNIT_ROWS, dtype=torch.int32, device="cuda")
        self.cut = sort.rows, experts, blocks * sort.ranges
        asks = ahead is not None and ahead.is_asked
        self.is_asked = is_asked
        words = struct.pack("<9Q19I", counts.data_ptr(), sources.data_ptr(), targets.data_ptr(), 0,
                            self.tickets.data_ptr(), self.told.data_ptr() * is_asked,
                            ahead.told.data_ptr() if asks else 0, tokens.data_ptr(), output.data_ptr(),
                            tokens.stride(0) * 2, tokens.shape[0], experts, 1, output.stride(0) * 2, n, blocks,
                            -(-k // 64), k * 2, BAND, sources.shape[0], output.shape[0], 1, 0, experts,
                            ahead is not None, *(ahead.cut if asks else (0, 0, 0)))
        self.params = ctypes.create_string_buffer(b"".join(maps) + words, 4096)
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.params))
        self.attributes = (Attribute * 2)(Attribute(CAN_OVERLAP, 0, 1), Attribute(CLUSTER, 0, sort.ranges, (1, 1)))
        self.take(torch.cuda.get_device_properties(0).multi_processor_count)

    def take(self, blocks):
        """At most so many; ranges of K are multiplied by blocks that start together."""
        ranges = self.attributes[1].value
        self.blocks = max(ranges, blocks // ranges * ranges)

    def map(self, tensor, sizes, strides, box, promotion=PROMOTE_256, swizzle=SWIZZLE_128):
        memory = ctypes.create_string_buffer(128 + 64)
        aligned = (ctypes.addressof(memory) + 63) & ~63
        rank = len(sizes)
        self.driver.call("cuTensorMapEncodeTiled", ctypes.c_void_p(aligned), BF16, rank,
                         ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_uint64 * rank)(*sizes),
                         (ctypes.c_uint64 * (rank - 1))(*(stride * 2 for stride in strides)),
                         (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank), 0, swizzle,
                         promotion, 0)
        return ctypes.string_at(aligned, 128)

    def __call__(self):
        launch = Launch((self.blocks, 1, 1), (self.threads, 1, 1), self.shared,
                        torch.cuda.current_stream().cuda_stream, self.attributes, 2)
        self.driver.call("cuLaunchKernelEx", ctypes.byref(launch), self.function, self.arguments, None)
