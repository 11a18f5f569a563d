"""stretto.torch: Stretto's operators for PyTorch, with gradients, torch.compile, and modules.

    import stretto.torch as st
    y = st.matmul_reduce_scatter(x, weight, group=mesh["tp"])      # any ProcessGroup, or a mesh's dimension
    model = st.parallelize(model, mesh["tp"])                      # a model of Hugging Face's Llama kind

On GPUs each rank runs its part of a plan; on CPUs Stretto's emulator executes the plan of all ranks, so
everything can be tried and tested without a GPU. What Stretto does not serve PyTorch's own operators do:
print(st.report()) says what and why. docs/torch.md has the tasks.
"""

from .ahead import learn, prepare
from .checkpoints import full_state_dict
from .clipping import clip_grad_norm_
from .exchanges import all_to_all_matmul, embedding_all_to_all, matmul_all_to_all
from .experts import moe, moe_with_router
from .functional import (all_gather_matmul, column_matmul, matmul_all_reduce,
                         matmul_all_reduce_add_rms_norm, matmul_reduce_scatter, mlp)
from .graphs import run_graph
from .groups import Group, init
from .halves import combine, dispatch, moe_down, moe_up
from .modules import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .parallelize import parallelize
from .report import Report, report, reset_report
from .stacks import ParallelExperts
from .styles import ColwiseParallel, RowwiseParallel
from .symm_mem import disable_symm_mem, enable_symm_mem
from .threads import Threads, run_threads
from .vocabulary import VocabularyParallelEmbedding

__all__ = ["ColumnParallelLinear", "ColwiseParallel", "Group", "ParallelExperts", "ParallelMLP", "Report",
           "RowParallelLinear", "RowwiseParallel", "Threads", "VocabularyParallelEmbedding", "all_gather_matmul",
           "all_to_all_matmul", "clip_grad_norm_", "column_matmul", "combine", "disable_symm_mem", "dispatch",
           "embedding_all_to_all", "enable_symm_mem", "full_state_dict", "init", "learn", "matmul_all_reduce", "matmul_all_reduce_add_rms_norm",
           "matmul_all_to_all", "matmul_reduce_scatter", "mlp", "moe", "moe_down", "moe_up", "moe_with_router",
           "parallelize", "prepare", "report", "reset_report", "run_graph", "run_threads"]
