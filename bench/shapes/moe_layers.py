"""Layers of experts that benchmarks are of: models, a rank's part of them, routings, and what DeepGEMM needs for them.

Without PyTorch, so that tests can ask.
"""

import math

# hidden, inner, experts, top k
MODELS = {"qwen30b": (2048, 768, 128, 8), "qwen235b": (4096, 1536, 128, 8), "mixtral": (4096, 14336, 8, 2),
          "gptoss": (2880, 2880, 128, 4), "glm45": (5120, 1536, 160, 8), "dsv3": (7168, 2048, 256, 8)}
ROUTINGS = ("uniform", "zipf", "one-hot")
LOADS = ("ep8", "tp2", "tp8")  # parts of a layer that a rank has
MOST_MASKED_ROWS = 1 << 18  # of all experts: beyond, their buffers take more memory than the layer
FORM = "deepgemm "  # what its contestants' names begin with


def local(model, load, tokens):
    """(hidden, inner, experts, top k, tokens) of a rank: `tp8` of eight that share each expert's inner columns, `tp2` of
    two, `ep8` of eight that share the experts."""
    hidden, inner, experts, top_k = MODELS[model]
    if load not in LOADS:
        raise ValueError(f"unknown load {load!r}; known: {', '.join(LOADS)}")
    if load != "ep8":
        return hidden, inner // int(load[2:]), experts, top_k, tokens
    experts //= 8
    chosen = min(top_k, experts)
    return hidden, inner, experts, chosen, tokens * top_k // chosen


def bias_of(routing, experts):
    """What is added to Gumbel noise of each expert, so that the largest k are k draws without putting back: uniform,
    by Zipf's law (an expert's chance goes with 1 / its number), or one expert of every token and others uniform."""
    if routing not in ROUTINGS:
        raise ValueError(f"unknown routing {routing!r}; known: {', '.join(ROUTINGS)}")
    if routing == "zipf":
        return [-math.log(expert + 1) for expert in range(experts)]
    return [math.inf if routing == "one-hot" and expert == 0 else 0.0 for expert in range(experts)]


def data_of(routing):
    """What a result says of its data; of uniform routing as results had it before there was another."""
    return f"standard normal, {'random' if routing == 'uniform' else routing} routing"


def spaces_of(counts):
    """By form of DeepGEMM's grouped product: the rows that it sets aside for each expert, of so many choices each.

    Contiguous: the choices, rounded up to its alignment, 128 rows, or 64 where experts have fewer. Masked: for every
    expert as many as the one with most has; left out where that is too much."""
    rows, most = sum(counts), max(counts)
    align = 64 if rows < 64 * len(counts) else 128
    forms = {"contiguous": [(count + align - 1) // align * align for count in counts]}
    height = 64 if most <= 64 else (most + 127) // 128 * 128
    if height * len(counts) <= MOST_MASKED_ROWS:
        forms["masked"] = [height] * len(counts)
    return align, forms


def is_deep_gemm(name):
    return name.startswith(FORM)


def best_deep_gemm(us):
    """The faster form's median; None where it took no part."""
    return min((times[0] for name, times in us.items() if is_deep_gemm(name)), default=None)
