"""How the examples start: by torchrun or mpirun, or by themselves as processes on this machine."""

import atexit
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist

# What launchers say of a rank: its number, how many there are, its number on this machine, and what tells this job from
# others. torchrun has its own way to meet.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", None),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"),
)


def _file_of(job, rank):
    """Where the ranks of a job on this machine meet; the first one takes it away again."""
    path = pathlib.Path(tempfile.gettempdir(), f"meet-{os.getuid()}-{job}")
    if rank == 0:
        atexit.register(path.unlink, missing_ok=True)
    return path


def join():
    """Joins the ranks that torchrun or Open MPI's mpirun has started. This rank's device; None: nobody has."""
    for rank, ranks, local, job in LAUNCHERS:
        if rank not in os.environ:
            continue
        device = torch.device("cuda", int(os.environ[local])) if torch.cuda.is_available() else torch.device("cpu")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        meeting = "env://" if job is None else f"file://{_file_of(os.environ[job], int(os.environ[rank]))}"
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", init_method=meeting,
                                rank=int(os.environ[rank]), world_size=int(os.environ[ranks]))
        return device
    return None


def _start(rank, program, ranks, meeting):
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    program()
    dist.destroy_process_group()


def run(program, ranks):
    """program() on each rank that a launcher has started, on GPUs where there are any; else on so many, on CPUs."""
    if join() is not None:
        program()
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_start, (program, ranks, f"file://{folder}/meet"), nprocs=ranks)
