"""What kernels take on a GPU, by PyTorch's profiler."""

import statistics

import torch

from bench.contests.torch_contestants import wait_for_gpu

NAME = 80  # letters of a kernel's


def traced(call, times=1):
    """A profile of so many calls, each behind the end of the one before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(times):
            call()
            wait_for_gpu()
    return trace


def kernels_in(call, runs=1):
    """[name, us, launches] of each kernel in one of so many runs that a call makes, the longest first."""
    found = [[event.key[:NAME], round(event.self_device_time_total / runs, 2), round(event.count / runs, 2)]
             for event in traced(call).key_averages() if event.self_device_time_total > 0]
    return sorted(found, key=lambda kernel: -kernel[1])


def steps_in(call, times=20):
    """[name, us] of each kernel of a call in its order: by how much it ends behind the one before, and the first behind
    its own start, in the median. Where kernels start while others end, their times overlap; these add up."""
    call()
    on_gpu = torch.autograd.DeviceType.CUDA
    kernels = [(event.start_ns() + event.duration_ns(), event.start_ns(), event.name()[:NAME])
               for event in traced(call, times).profiler.kineto_results.events()
               if event.device_type() == on_gpu and event.duration_ns() > 0]
    kernels.sort()
    return steps_of(kernels, times)


def steps_of(kernels, times):
    """As steps_in(), of (end, start, name) in ns of so many calls, by their ends."""
    each, rest = divmod(len(kernels), times)
    if rest or not each:
        return []
    calls = [kernels[at:at + each] for at in range(0, len(kernels), each)]
    steps = []
    for i, (_, _, name) in enumerate(calls[0]):
        taken = [call[i][0] - (call[i - 1][0] if i else call[i][1]) for call in calls]
        steps.append([name, round(statistics.median(taken) / 1e3, 2)])
    return steps


def timeline_of(call, times=5):
    """[name, start, us, stream] of each kernel and copy of the last of so many calls, in the order of their starts."""
    call()
    on_gpu = torch.autograd.DeviceType.CUDA
    events = [(event.start_ns(), event.duration_ns(), event.device_resource_id(), event.name()[:NAME])
              for event in traced(call, times).profiler.kineto_results.events()
              if event.device_type() == on_gpu and event.duration_ns() > 0]
    events.sort()
    each, rest = divmod(len(events), times)
    if rest or not each:
        return []  # nobody knows where the last call begins
    events = events[each * (times - 1):]
    return [[name, round((start - events[0][0]) / 1e3, 2), round(taken / 1e3, 2), stream]
            for start, taken, stream, name in events]
