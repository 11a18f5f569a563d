#!/usr/bin/env python3
"""What eager calls of stretto.torch take of the host beside a driver that does nothing (tests/stub), on CPU tensors.

    python/tests/with_torch/without_gpu.py BUILD        # build/test: ninja -C BUILD stretto_c stub_driver stub_nvrtc

Allocation is that of the CPU, and launches cost nothing: what is left is Python's, PyTorch's and the library's. Times
are of the thread, the least of several turns. `auto` may want cuBLAS, which needs a GPU, so that schedules are tiles.
"""

import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def begin_again(build):
    """As a process that finds the stub's driver first."""
    stubs = build / "tests" / "stub"
    folders = [str(stubs / "driver"), str(stubs / "nvrtc"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.execve(sys.executable, [sys.executable, __file__, str(build)], {
        **os.environ, "LD_LIBRARY_PATH": ":".join(folders), "STUB_GPUS": "NVIDIA H200:132:9.0",
        "STRETTO_LIBRARY": str(build / "src" / "c" / "libstretto.so"), "STRETTO_MEASURE_MS": "0",
        "STRETTO_CACHE_PATH": "/nowhere", "PYTHONPATH": str(HERE.parents[1])})


def thread_us(call, runs=1000, turns=7):
    for _ in range(4):
        call()
    took = []
    for _ in range(turns):
        begin = time.thread_time()
        for _ in range(runs):
            call()
        took.append((time.thread_time() - begin) * 1e6 / runs)
    return min(took)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if "STUB_GPUS" not in os.environ:
        begin_again(pathlib.Path(sys.argv[1]).resolve())
    import torch

    import gpu_costs
    import stretto
    import stretto.torch as st
    from stretto import operations
    from stretto.torch import _engine, _gpu, _operations, _records
    view_of = sys.modules["stretto.tensors"].view_of  # stretto.tensors is a function, too

    torch.set_num_threads(1)
    operations.on_gpu = lambda tensor, name, gpu: view_of(tensor, name)
    _records.DEVICE, _records._is_capturing = "cpu", lambda: False
    torch._C._cuda_getCurrentRawStream = lambda index: 0
    torch.cuda.current_stream = lambda device: 0
    torch.cuda.is_current_stream_capturing = lambda: False
    _operations.open_context = lambda group, gpu: stretto.Context(5, rank=0, ranks=1, gpu=0)
    _engine.ENGINES["cpu"] = _gpu.Engine

    def normal(seed, *shape):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator).bfloat16()

    with st.Threads(1, schedule="tiles", fallback=False) as threads:
        for name, took in gpu_costs.costs(threads.groups[0], "cpu", normal, thread_us):
            if "F.linear" not in name:  # which multiplies here
                print(f"an eager call of {name:40} takes {took:5.1f} us of the host")


if __name__ == "__main__":
    main()
