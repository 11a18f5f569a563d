#!/usr/bin/env python3
"""MLPs, norms, all-to-alls, decoder layers, experts and what moves rows to them on several GPUs, beside libraries.

    torchrun --nproc-per-node 2 bench/contests/layers.py --shapes FILE --out layers.json [--seconds 400]

Shapes are as bench/shapes/layers.py prints them. As torch_baselines.py, for operators of several products and of
experts. A row has, by contestant, microseconds (the median over rounds of the slowest rank's, the 10th and the 90th
percentile), relative errors, and why who failed did. Contestants are sequences of cuBLAS, NCCL and one-pass kernels in
Triton, PyTorch's fused operators, symmetric memory, FlashInfer and DeepGEMM where their packages are found
(layer_paths.py, expert_paths.py, moved_paths.py), Stretto's operators of one product with such kernels between
("stretto parts"), and Stretto's plan of all ("stretto"). *products*: these alone. Rows are measured in the file's
order, and the file has them as soon as they are; --seconds says how long any may begin. With --kernels a row also has
what each kernel takes of Stretto and of the fastest of the others, [name, us, launches] of a run in a graph, the longest
first. --beside adds schedules of Stretto's to those that a row has.
"""

import argparse
import gc
import importlib.metadata
import os
import pathlib
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("NVSHMEM_DISABLE_NVLS", "1")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from bench.contests import torch_job  # noqa: E402
from bench.contests.kernel_times import kernels_in  # noqa: E402
from bench.contests.torch_contestants import meet, wait_for_gpu  # noqa: E402
from bench.rivals import expert_paths, layer_paths, moved_paths, path_base  # noqa: E402
from bench.shapes.moe_layers import ROUTINGS  # noqa: E402

SIZES = {**layer_paths.SIZES, **expert_paths.SIZES, **moved_paths.SIZES}
PATHS = {**layer_paths.PATHS, **expert_paths.PATHS, **moved_paths.PATHS}
GRAPH_US = 30_000  # of one launch at most
OURS, ALONE, IN_ORDER = "stretto", "products", " in order"


class Layer:
    """A row's tensors, its reference, and its contestants, made one by one."""

    def __init__(self, job, name, sizes):
        self.job, self.name, self.operations = job, name, {}
        place = path_base.Place(dist.get_rank(), dist.get_world_size(), "cuda", job.group, job.args.routing)
        torch.manual_seed(1234 + place.rank)
        self.paths = PATHS[name](place, **{key.replace("-", "_"): size for key, size in sizes.items()})
        self.reference = self.paths.reference()
        wait_for_gpu()

    def contestant(self, call, settle=lambda: None, verified=True, look=None):
        return self.job.contestant(call, settle, self.reference if verified else None, graph_us=GRAPH_US,
                                   most_error=self.paths.most_error, look=look or self.paths.look)

    def their(self, call):
        look = self.paths.look_of(call) if hasattr(self.paths, "look_of") else None
        return self.contestant(call, look=look)

    def operation(self, label, operator, sizes, schedule="auto"):
        made = self.job.stretto.Operation(self.job.context, operator, rows="fixed", schedule=schedule, sizes=sizes)
        self.operations.setdefault(label, []).append(made)
        return made

    def ours(self, label, schedule):
        paths = self.paths
        operation = self.operation(label, self.name, paths.sizes, schedule)
        tensors = {**paths.inputs, **{name: torch.empty_like(one) for name, one in paths.outputs.items()}}

        def call():
            operation.run(tensors)
            return tensors[paths.result]
        wait_for_gpu()
        return self.contestant(call, operation.finish)

    def by_parts(self, label, wanted, call):
        made = {part: self.operation(label, operator, sizes) for part, (operator, sizes) in wanted.items()}
        wait_for_gpu()
        return self.contestant(lambda: call(**made), lambda: [one.finish() for one in made.values()])

    def flashinfer(self):
        """By label, what makes a contestant of FlashInfer's; nothing where it has none, or is not there."""
        if isinstance(self.paths, layer_paths.Norm) and not self.paths.scatters:
            return {f"flashinfer{' pdl' * pdl}": lambda pdl=pdl: self.their(
                self.paths.by_flashinfer(*self.fusion(), pdl)) for pdl in (False, True)}
        if isinstance(self.paths, expert_paths.DealtExperts):
            def push():
                import flashinfer.moe_ep as layers
                return self.their(self.paths.by_flashinfer(layers))
            return {"flashinfer push": push}
        if isinstance(self.paths, moved_paths.DispatchCombine):
            return {"flashinfer a2a": lambda: self.their(self.paths.by_flashinfer(self.moves))}
        return {}

    def moves(self, tokens, top_k, experts, hidden):
        """FlashInfer's all-to-all of tokens and sums, with room for so many tokens of each rank."""
        import flashinfer.comm as comm
        from flashinfer.comm.mnnvl import MnnvlConfig, TorchDistBackend
        ranks = dist.get_world_size()
        mapping = comm.Mapping(world_size=ranks, rank=dist.get_rank(), gpus_per_node=ranks, tp_size=ranks,
                               moe_ep_size=ranks)
        return comm.MoeAlltoAll(mapping, max_num_tokens=tokens, top_k=top_k, num_experts=experts, hidden_size=hidden,
                                mnnvl_config=MnnvlConfig(comm_backend=TorchDistBackend()))

    def fusion(self):
        """FlashInfer's all-reduce with a norm, by TensorRT-LLM's kernels, and its workspace. They are the only ones
        that use no NVLink multicast: other backends are not to be asked for."""
        import flashinfer.comm as fusion
        from flashinfer.comm.mnnvl import TorchDistBackend
        rows, columns = self.paths.sizes["m"], self.paths.sizes["n"]
        kept = self.job.__dict__.setdefault("fusions", {})
        if kept.get(columns, (0,))[0] < rows:
            most = max(8192, rows)
            kept[columns] = most, fusion.create_allreduce_fusion_workspace(
                backend="trtllm", world_size=dist.get_world_size(), rank=dist.get_rank(), max_token_num=most,
                hidden_dim=columns, dtype=torch.bfloat16, comm_backend=TorchDistBackend(), group=dist.group.WORLD)
        return fusion, kept[columns][1]

    def makers(self):
        """By label, what makes a contestant."""
        paths = self.paths
        made = {label: lambda call=call: self.contestant(call, verified=False) for label, call in paths.alone().items()}
        made |= {label: lambda call=call: self.their(call) for label, call in paths.theirs().items()}
        made |= self.flashinfer()
        if self.job.context is None:
            return made
        parts = paths.parts()
        if parts is not None:
            made["stretto parts"] = lambda: self.by_parts("stretto parts", *parts)
        for schedule in dict.fromkeys((*paths.schedules, *self.job.args.beside)):
            label = "stretto" if schedule == "auto" else f"stretto {schedule}"
            made[label] = lambda label=label, schedule=schedule: self.ours(label, schedule)
        return made


def anything(call):
    """What other people's code raises, as what ends one contestant only."""
    def guarded():
        try:
            return call()
        except (ValueError, RuntimeError):
            raise
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
    return guarded


def spread(times):
    times = sorted(times)
    return [times[len(times) // 2], times[len(times) // 10], times[-1 - len(times) // 10]]


def kernels_of(contestant):
    """Those of a run in its graph. NCCL's wait for the other ranks, too."""
    meet()
    return kernels_in(contestant.graph.replay, contestant.runs)


def those_compared(timed):
    """Labels of Stretto and of the fastest of the others."""
    others = [label for label in timed
              if not label.startswith(OURS) and label != ALONE and not label.endswith(IN_ORDER)]
    fastest = sorted(others, key=lambda label: spread(timed[label].times)[0])[:1]
    return [label for label in (OURS, *fastest) if label in timed]


def measure(job, name, sizes, problems):
    row = {"operator": torch_job.operator_text(name, sizes)}
    contest = job.contest(row["operator"], problems)
    if job.args.routing != "uniform":
        row["operator"] += f" routing={job.args.routing}"
    layer = contest.attempt("row", anything(lambda: Layer(job, name, sizes)))
    makers = layer and contest.attempt("row", anything(layer.makers))
    if not makers:
        return {**row, "failed": {"row": contest.problems["row"]}}
    contestants = {}
    for label, make in makers.items():
        made = contest.attempt(label, anything(make))
        if made is not None:
            made.run = anything(made.run)
            contestants[label] = made
    job.take_turns(contest, contestants)
    timed = {label: one for label, one in contestants.items() if label not in contest.problems}
    if job.args.kernels:
        def traced(label):
            return contest.attempt(f"kernels of {label}", anything(lambda: kernels_of(timed[label])))
        row["kernels"] = {label: traced(label) or [] for label in those_compared(timed)}
    row |= {"link_bytes": layer.paths.link_bytes(), "us": {label: spread(one.times) for label, one in timed.items()},
            "errors": {label: one.error for label, one in timed.items() if one.reference is not None},
            "schedules": {label: " / ".join(one.schedule() for one in made)
                          for label, made in layer.operations.items()},
            "failed": dict(contest.problems)}
    operations = layer.operations
    contestants.clear()
    timed.clear()
    makers.clear()
    made = layer = None  # graphs end before what they run
    gc.collect()
    for label, some in operations.items():
        for operation in some:
            torch_job.close(contest, label, operation)
    torch.cuda.empty_cache()
    return row


def packages():
    """The versions of what others' contestants come from, by module; what is missing is not in it."""
    known = importlib.metadata.packages_distributions()
    return {module: " ".join(f"{one} {importlib.metadata.version(one)}" for one in known[module])
            for module in ("deep_gemm", "flashinfer", "triton") if module in known}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    torch_job.add_options(parser, rounds=7)
    parser.add_argument("--kernels", action="store_true", help="what kernels take of ours and of the fastest other")
    parser.add_argument("--beside", action="append", default=[], metavar="SCHEDULE",
                        help="another of Stretto's schedules for every row that it can serve; may be given again")
    parser.add_argument("--routing", choices=ROUTINGS, default="uniform", help="of layers of experts; rows name another")
    args = parser.parse_args()
    shapes = torch_job.parse_shapes(args.shapes, SIZES)
    torch_job.run(torch_job.checked(args), shapes, measure, "layers", packages=packages())


if __name__ == "__main__":
    main()
