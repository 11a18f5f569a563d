#!/usr/bin/env python3
"""stretto.torch on GPUs: numbers, gradients, CUDA graphs, torch.compile, PyTorch's drop-in, and times.

    torchrun --nproc-per-node 2 python/tests/with_torch/on_gpus.py [--no-times] [--seconds 100]

Everything must be served by Stretto. Ends with a table, and with exit code 1 where a check failed. Ranks may share
a GPU (STRETTO_RANKS_A_GPU=2), which then takes turns: PyTorch's own collectives are gloo's, and nothing is timed.
"""

import datetime
import os
import sys
import time
import traceback

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import gpu_checks  # noqa: E402
import gpu_common  # noqa: E402
import gpu_costs  # noqa: E402

import stretto.torch as st  # noqa: E402

# By gradients, so that it is no gap of Stretto's.
CHOSEN = ("to turn the weight would take longer", "beside the product of another gradient",
          "backward takes what stands between the products")
TIMEOUT_S = 15
LOST_S = 90  # of PyTorch's own collectives


def gathered(x):
    whole = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous())
    return whole


def time_us(call, runs=20):
    for _ in range(3):
        call()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier()
    start.record()
    for _ in range(runs):
        call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) * 1000 / runs


def times(group):
    """Eager calls, host included: Stretto's operator, and NCCL with cuBLAS by PyTorch."""
    ranks, told = group.ranks, []
    for rows, n, k in ((2048, 8192, 8192), (8192, 8192, 28672)):
        x, w = gpu_common.normal(1, rows // ranks, n), gpu_common.normal(2, k // ranks, n, scale=0.01)
        told.append(("all_gather_matmul", rows, k, n, time_us(lambda: st.all_gather_matmul(x, w, group=group)),
                     time_us(lambda: F.linear(gathered(x), w))))
        x, w = gpu_common.normal(1, rows, k // ranks), gpu_common.normal(2, n, k // ranks, scale=0.01)
        y = x.new_empty(rows // ranks, n)
        told.append(("matmul_reduce_scatter", rows, n, k,
                     time_us(lambda: st.matmul_reduce_scatter(x, w, group=group)),
                     time_us(lambda: dist.reduce_scatter_tensor(y, F.linear(x, w)))))
    return told


def not_served():
    return {f"{op}: {reason}": count for (op, reason), count in st.report().fallbacks.items()
            if not any(one in reason for one in CHOSEN)}


class Checks:
    """Runs them one after the other; ranks tell each other how each went, by gloo on the host."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds
        self.host = dist.new_group(backend="gloo")
        self.group = st.init(timeout_s=TIMEOUT_S)
        self.lines, self.failed = [], 0

    def run(self, check):
        begin, what = time.monotonic(), []
        name = check.__name__[len("check_"):]
        late = [None] * dist.get_world_size()
        dist.all_gather_object(late, begin > self.until, group=self.host)
        if any(late):
            self.tell(f"{name:20} not run: no time is left")
            return
        st.reset_report()
        try:
            check(self.group)
            torch.cuda.synchronize()
        except Exception:
            what.append(traceback.format_exc(limit=-4).strip())
        what += gpu_common.wrong() + [f"not served: {count} x {reason}" for reason, count in not_served().items()]
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, what, group=self.host)
        if not any(everyone):
            self.group.finish()
            self.tell(f"{name:20} ok      {time.monotonic() - begin:5.1f} s   "
                      f"{', '.join(f'{count} x {op}' for op, count in sorted(st.report().served.items()))}")
            return
        self.failed += 1
        self.tell(f"{name:20} FAILED  {time.monotonic() - begin:5.1f} s")
        for rank, told in enumerate(everyone):
            for line in told:
                self.tell(f"    rank {rank}: " + line.replace("\n", "\n    "))
        self.tell_schedules()
        self.start_again()

    def tell_schedules(self):
        """Of what has failed: which plans ran."""
        engine = self.group.engines.get("cuda")
        for (graph, *_), by_rows in (engine._operations.kinds if engine else {}).items():
            for rows, operation in by_rows.items():
                told = operation if isinstance(operation, str) else operation.schedule()
                self.tell(f"    {graph.split(maxsplit=2)[1] if chr(10) in graph else graph}, {rows} rows: {told}")

    def start_again(self):
        """Ranks may be at different calls: a group of their own goes on."""
        self.group = st.init(dist.new_group(), timeout_s=TIMEOUT_S)

    def tell(self, line):
        self.lines.append(line)
        if dist.get_rank() == 0:
            print(line, flush=True)


def main():
    if "LOCAL_RANK" not in os.environ:
        sys.exit("start this with torchrun --nproc-per-node N")
    is_shared = os.environ.get("STRETTO_RANKS_A_GPU", "1") != "1" and int(os.environ["WORLD_SIZE"]) > 1
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    if is_shared:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()),
                                timeout=datetime.timedelta(seconds=LOST_S))
    seconds = float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 600.0
    wanted = sys.argv[sys.argv.index("--only") + 1].split(",") if "--only" in sys.argv else None
    checks = Checks(seconds)
    for check in gpu_checks.CHECKS:
        if wanted is None or check.__name__[len("check_"):] in wanted:
            checks.run(check)
    group = checks.group
    for name, (mean, middle, slow) in gpu_costs.host_costs(group):
        checks.tell(f"an eager call of {name:36} takes {mean:6.1f} us of the host, the middle one {middle:6.1f}, "
                    f"{slow} of 300 five times that")
    for op, (operation, rows) in gpu_costs.plans().items():
        checks.tell(f"an eager call of {op:36} takes the plan {operation.schedule(rows)}")
    if not checks.failed and not is_shared and "--no-times" not in sys.argv:
        for op, rows, n, k, ours, theirs in times(group):
            checks.tell(f"{op:24} m={rows} n={n} k={k}: {ours:8.1f} us, PyTorch's {theirs:8.1f} us, "
                        f"x{theirs / ours:.2f}")
    group.finish() if not checks.failed else None
    sys.stdout.flush()
    if checks.failed:  # ranks may wait for each other in what frees
        os._exit(1)
    group.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
