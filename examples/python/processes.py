"""How the examples start: by torchrun, or by themselves as processes on this machine."""

import os
import tempfile

import torch
import torch.distributed as dist


def _start(rank, program, ranks, meeting):
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    program()
    dist.destroy_process_group()


def run(program, ranks):
    """program() on each of torchrun's ranks, on GPUs where there are any; else on so many, on CPUs."""
    if "RANK" in os.environ:  # started by torchrun
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        program()
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_start, (program, ranks, f"file://{folder}/meet"), nprocs=ranks)
