"""What kernels take on a GPU, by PyTorch's profiler."""

import torch

from torch_contestants import wait_for_gpu

NAME = 80  # letters of a kernel's


def kernels_in(call, runs=1):
    """[name, us, launches] of each kernel in one of so many runs that a call makes, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        call()
        wait_for_gpu()
    found = [[event.key[:NAME], round(event.self_device_time_total / runs, 2), round(event.count / runs, 2)]
             for event in trace.key_averages() if event.self_device_time_total > 0]
    return sorted(found, key=lambda kernel: -kernel[1])
