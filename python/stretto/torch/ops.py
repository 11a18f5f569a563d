"""torch.ops.stretto: the operators as PyTorch's dispatcher knows them.

Each has a kernel for CPU and CUDA, a fake one for torch.compile, gradients, and autocast. What they
compute is in functional.py's docstrings; lists of weights lie below one another there.
"""

import torch

from . import _exchange_gradients  # noqa: F401  (adds its gradients)
from . import _backward, _exchanges, _experts, _gradients, _graphs, _kernels, _routers, _shapes

_library = torch.library.Library("stretto", "FRAGMENT")

SCHEMAS = {
    "all_gather_matmul":
        "(Tensor x, Tensor[] weights, Tensor[] biases, str group_name, int dim=0, SymInt? rows=None, "
        "bool keep_gathered=False) -> (Tensor, Tensor)",
    "matmul_reduce_scatter":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0) -> Tensor",
    "matmul_all_reduce":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name) -> Tensor",
    "matmul_all_reduce_add_rms_norm":
        "(Tensor x, Tensor weight, Tensor residual, Tensor norm_weight, float eps, str group_name) "
        "-> (Tensor, Tensor)",
    "mlp":
        "(Tensor x, Tensor[] ups, Tensor[] up_biases, Tensor down, str activation, str group_name, "
        "bool sequence_parallel=False, int dim=0) -> Tensor",
    "moe":
        "(Tensor x, Tensor ids, Tensor weights, Tensor gate, Tensor up, Tensor down, str group_name, "
        "bool expert_parallel=False, SymInt? rows=None, bool sequence_parallel=True, int? num_experts=None) -> Tensor",
    "moe_backward":
        "(Tensor dy, Tensor x, Tensor ids, Tensor weights, Tensor gate, Tensor up, Tensor down, str group_name, "
        "bool expert_parallel=False, SymInt? rows=None, bool sequence_parallel=True, int? num_experts=None) "
        "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "moe_with_router":
        "(Tensor x, Tensor router, Tensor gate, Tensor up, Tensor down, Tensor? bias, str group_name, int k, "
        "str scores='softmax', bool normalise=True, float scale=1.0, int groups=1, int best=1, "
        "bool expert_parallel=False, SymInt? rows=None) -> (Tensor, Tensor, Tensor)",
    "moe_with_router_backward":
        "(Tensor dy, Tensor dweights, Tensor x, Tensor router, Tensor gate, Tensor up, Tensor down, Tensor ids, "
        "Tensor weights, str group_name, str scores='softmax', bool normalise=True, float scale=1.0, "
        "bool expert_parallel=False, SymInt? rows=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "column_matmul":
        "(Tensor x, Tensor[] weights, Tensor[] biases, str group_name) -> Tensor",
    "matmul_all_to_all":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0, SymInt? rows=None) -> Tensor",
    "all_to_all_matmul":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0) -> Tensor",
    "embedding_all_to_all":
        "(Tensor ids, Tensor tables, str group_name, str mode='sum', int? num_tables=None) -> Tensor",
    "all_to_all":
        "(Tensor x, str group_name, bool to_rows, SymInt total, SymInt block, int dim=0) -> Tensor",
    "all_reduce":
        "(Tensor x, str group_name) -> Tensor",
    "run_graph":
        "(Tensor[] inputs, str graph, str sizes, str group_name) -> Tensor[]",
    "matmul_all_reduce_back":
        "(Tensor x, Tensor[] weights, str group_name) -> Tensor",
    "matmul_reduce_scatter_back":
        "(Tensor x, Tensor[] weights, str group_name, int dim=0) -> Tensor",
    "column_matmul_backward":
        "(Tensor dy, Tensor x, Tensor[] weights, str group_name) -> (Tensor, Tensor)",
    "all_gather_matmul_backward":
        "(Tensor dy, Tensor x, Tensor[] weights, str group_name, int dim=0, bool is_gathered=False) "
        "-> (Tensor, Tensor)",
    "all_gather_matmul_back":
        "(Tensor x, Tensor weight, str group_name, int dim=0, SymInt? rows=None) -> (Tensor, Tensor)",
    "all_gather":
        "(Tensor x, str group_name, int dim=0, SymInt? rows=None) -> Tensor",
}

# Operators that also write to a tensor of the caller, as NAME.out.
OUT_SCHEMAS = {
    "all_gather_matmul":
        "(Tensor x, Tensor[] weights, Tensor[] biases, str group_name, int dim=0, SymInt? rows=None, "
        "*, Tensor(a!) out) -> ()",
    "matmul_reduce_scatter":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0, *, Tensor(a!) out) -> ()",
    "matmul_all_reduce":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, *, Tensor(a!) out) -> ()",
    "matmul_all_reduce_add_rms_norm":
        "(Tensor x, Tensor weight, Tensor residual, Tensor norm_weight, float eps, str group_name, "
        "*, Tensor(a!) out, Tensor(b!) total) -> ()",
    "mlp":
        "(Tensor x, Tensor[] ups, Tensor[] up_biases, Tensor down, str activation, str group_name, "
        "bool sequence_parallel=False, int dim=0, *, Tensor(a!) out) -> ()",
    "moe":
        "(Tensor x, Tensor ids, Tensor weights, Tensor gate, Tensor up, Tensor down, str group_name, "
        "bool expert_parallel=False, SymInt? rows=None, bool sequence_parallel=True, int? num_experts=None, "
        "*, Tensor(a!) out) -> ()",
    "moe_with_router":
        "(Tensor x, Tensor router, Tensor gate, Tensor up, Tensor down, Tensor? bias, str group_name, int k, "
        "str scores='softmax', bool normalise=True, float scale=1.0, int groups=1, int best=1, "
        "bool expert_parallel=False, SymInt? rows=None, *, Tensor(a!) out, Tensor(b!) ids, Tensor(c!) weights) -> ()",
    "column_matmul":
        "(Tensor x, Tensor[] weights, Tensor[] biases, str group_name, *, Tensor(a!) out) -> ()",
    "matmul_all_to_all":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0, SymInt? rows=None, "
        "*, Tensor(a!) out) -> ()",
    "all_to_all_matmul":
        "(Tensor x, Tensor weight, Tensor? bias, str group_name, int dim=0, *, Tensor(a!) out) -> ()",
    "embedding_all_to_all":
        "(Tensor ids, Tensor tables, str group_name, str mode='sum', int? num_tables=None, "
        "*, Tensor(a!) out) -> ()",
}


# Arguments that autocast leaves as they are: a token's sum is weighed in fp32, experts are chosen in fp32, and tables
# are not multiplied.
KEPT = {"moe": (2,), "moe_with_router": (5,), "embedding_all_to_all": (1,)}


def _homes(name):
    """The modules of an operator's kernel and of its fake one."""
    for module in (_experts, _routers, _exchanges, _graphs, _backward):
        if hasattr(module, f"fake_{name}"):
            return module, module
    return _kernels, _shapes


def _autocast(op, device_type, kept):
    """Floating tensors in autocast's type of the moment, as PyTorch casts for its own products."""
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device_type.upper()}"))

    def cast(value, dtype):
        if isinstance(value, (list, tuple)):
            return [cast(one, dtype) for one in value]
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
            return value.to(dtype)
        return value

    def kernel(*arguments, **named):
        dtype = torch.get_autocast_dtype(device_type)
        with torch._C._ExcludeDispatchKeyGuard(key):
            return op(*(one if place in kept else cast(one, dtype) for place, one in enumerate(arguments)), **named)
    return kernel


def _cast_under_autocast(name, overload):
    """What is written is the caller's, and stays as it is."""
    packet, _, which = overload.partition(".")
    op = getattr(getattr(torch.ops.stretto, packet), which or "default")
    for device_type in ("cpu", "cuda"):
        key = "AutocastCPU" if device_type == "cpu" else "AutocastCUDA"
        _library.impl(overload, _autocast(op, device_type, KEPT.get(name, ())), key)


def _define():
    for name, schema in SCHEMAS.items():
        _library.define(name + schema)
        kernels, fakes = _homes(name)
        _library.impl(name, getattr(kernels, name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"stretto::{name}", getattr(fakes, f"fake_{name}"), lib=_library)
        gradient = _gradients.GRADIENTS.get(name)
        if gradient:
            torch.library.register_autograd(f"stretto::{name}", gradient.backward,
                                            setup_context=gradient.keep, lib=_library)
            _cast_under_autocast(name, name)
    for name, schema in OUT_SCHEMAS.items():
        _library.define(f"{name}.out{schema}")
        _library.impl(f"{name}.out", _writer(getattr(_homes(name)[0], name)), "CompositeExplicitAutograd")
        torch.library.register_fake(f"stretto::{name}.out", lambda *arguments, **named: None, lib=_library)
        _cast_under_autocast(name, f"{name}.out")


def _writer(kernel):
    def write(*arguments, **named):
        kernel(*arguments, **named)
    return write


_define()
