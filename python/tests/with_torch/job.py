"""What each of four processes does with groups of torch.distributed; test_torch_processes.py starts them.

Prints a line "NAME ok", or what failed, for each check: all ranks make them in the same order.
"""

import sys
import traceback

import job_compile
import job_drop_in
import job_groups
import job_modules

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

# Groups that the first ones make the others use, with their options.
CHECKS = [check for module in (job_groups, job_compile, job_drop_in, job_modules)
          for name, check in vars(module).items() if name.startswith("check_")]


def main():
    rank = int(sys.argv[1])
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=4)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    alone = dist.new_group([0])
    mesh.alone = alone.group_name if rank == 0 else None  # a group of one rank
    for check in CHECKS:
        try:
            check(mesh)
            print(check.__name__, "ok", flush=True)
            dist.barrier()  # some checks keep one rank busy: the next one's waits are short
        except Exception:
            print(check.__name__, traceback.format_exc().replace("\n", "\n    "), flush=True)
            return 1
    # Groups are never closed here: the interpreter ends all the same, and says nothing.
    return 0


if __name__ == "__main__":
    sys.exit(main())
