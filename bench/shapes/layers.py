#!/usr/bin/env python3
"""Layers for bench/contests/layers.py, those that say most first.

    bench/shapes/layers.py dense --on 2
    bench/shapes/layers.py experts --on 2
    bench/shapes/layers.py moved --on 2
    bench/shapes/layers.py routed --on 2
    bench/shapes/layers.py unseen --on 2

`dense`: norms behind sums of 8192 columns, K of 4096 a rank; MLPs and decoder layers of Llama-3 8B and 70B, and MLPs
of which each rank has an eighth; all-to-alls around the projections of 8B and 70B. `experts`: layers of experts of the
models that bench/shapes/moe_layers.py has, whole ones first, each rank with an eighth of experts or of their inner columns, or
with what it has on so many GPUs. `moved`: what moves rows to these experts and back, all of them dealt to the ranks.
`routed`: some of both, by turns, where little time is left; then the other layers of `experts` that have most tokens.
`unseen`: layers of experts of each model at token counts that nobody chose: log-uniform to 16384, from a fixed seed.
"""

import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.shapes.moe_layers import MODELS  # noqa: E402

# hidden, inner, heads, heads of keys
LLAMAS = {"llama-3-8b": (4096, 14336, 32, 8), "llama-3-70b": (8192, 28672, 64, 8)}
# Rows by how much they say.
ROWS = ((2048, 512), (8192, 64), (4096, 1024))
FEW_MODELS = ("mixtral", "qwen30b", "qwen235b", "dsv3")
# Tokens of all ranks together for tensor parallelism, of each for experts that are dealt.
TOKENS = ((1024, 8192), (64,), (4096, 16384))
TOKENS_OF_RANK = ((1024, 128), (8192,), (16, 512, 4096))
MOST_TOKENS = 16384


def layer(kind, m, model):
    hidden, inner, heads, kv_heads = LLAMAS[model]
    if kind == "layer":
        return f"layer m={m} h={hidden} f={inner} heads={heads} kv-heads={kv_heads} head-dim=128", model
    if kind == "mlp":
        return f"mlp m={m} h={hidden} f={inner}", model
    n, k = ((heads + 2 * kv_heads) * 128, hidden) if kind == "gemm-a2a" else (hidden, heads * 128)
    return f"{kind} m={m} n={n} k={k}", model


def dense(ranks):
    """(operator with its sizes, of what)"""
    for rows in ROWS:
        for m in rows:
            yield f"gemm-ar-norm m={m} n=8192 k={4096 * ranks}", "K of 4096 a rank"
            yield f"gemm-rs-norm m={m} n=8192 k={4096 * ranks}", "K of 4096 a rank"
        for model in LLAMAS:
            for m in rows:
                yield layer("mlp", m, model)
                if m >= 2048:
                    yield layer("layer", m, model)
                    yield layer("gemm-a2a", 2 * m, model)
                    yield layer("a2a-gemm", 2 * m, model)
        for m in rows if ranks < 8 else ():
            hidden, inner, *_ = LLAMAS["llama-3-70b"]
            yield f"mlp m={m} h={hidden} f={inner * ranks // 8}", "llama-3-70b, an eighth on each rank"


def experts(ranks):
    for of_tensors, of_rank in zip(TOKENS, TOKENS_OF_RANK):
        for models in (FEW_MODELS, [name for name in MODELS if name not in FEW_MODELS]):
            for kinds in (("moe-tp",), ("moe-ep",), ("moe-tp-down", "moe-tp-up")):
                for model in models:
                    yield from experts_of(model, kinds, of_tensors, of_rank, ranks)


def experts_of(model, kinds, of_tensors, of_rank, ranks):
    hidden, inner, count, top_k = MODELS[model]
    for kind in kinds:
        for tokens in of_rank if kind == "moe-ep" else of_tensors:
            parts = [(inner, count, ""), (inner * ranks // 8, count, ", an eighth of columns")]
            if kind == "moe-ep":
                parts = [(inner, count * ranks // 8, ", an eighth of experts"), (inner, count, "")]
            for f, here, what in parts if ranks < 8 else parts[:1]:
                if top_k <= here and (what or kind != "moe-ep" or tokens <= 1024):
                    t = tokens * ranks if kind == "moe-ep" else tokens
                    yield f"{kind} t={t} h={hidden} f={f} experts={here} k={top_k}", model + what


def moved(ranks):
    """DeepSeek-V3's first, whose rows such kernels are published for."""
    models = ("dsv3", *(name for name in MODELS if name != "dsv3"))
    for tokens in ((128, 4096), (16, 1024)):
        for model in models:
            hidden, _, count, top_k = MODELS[model]
            for each in tokens:
                for kind in ("dispatch", "combine", "dispatch-combine"):
                    yield f"{kind} t={each * ranks} h={hidden} experts={count} k={top_k}", model


# (operator, model, tokens as in TOKENS or TOKENS_OF_RANK, an eighth)
ROUTED = (("moe-tp", "mixtral", 1024, True), ("moe-ep", "dsv3", 128, True), ("dispatch-combine", "dsv3", 128, False),
          ("moe-tp", "qwen235b", 8192, True), ("moe-tp", "dsv3", 8192, True), ("moe-tp", "mixtral", 8192, True),
          ("moe-ep", "qwen30b", 128, False), ("moe-tp", "qwen30b", 1024, False), ("moe-tp", "qwen235b", 8192, False),
          ("moe-ep", "dsv3", 1024, True), ("moe-tp-down", "qwen235b", 8192, True), ("moe-tp-up", "qwen235b", 8192, True),
          ("dispatch", "dsv3", 128, False), ("combine", "dsv3", 128, False), ("moe-tp", "qwen30b", 8192, True),
          ("moe-tp", "qwen30b", 1024, True), ("moe-tp", "mixtral", 1024, False), ("moe-ep", "qwen30b", 1024, False))


def routed(ranks):
    """What says most of rows that choose experts."""
    first = []
    for kind, model, tokens, is_eighth in ROUTED:
        if kind in ("dispatch", "combine", "dispatch-combine"):
            hidden, _, count, top_k = MODELS[model]
            first.append((f"{kind} t={tokens * ranks} h={hidden} experts={count} k={top_k}", model))
            continue
        made = list(experts_of(model, (kind,), (tokens,), (tokens,), ranks))
        first += [one for one in made if ranks == 8 or ("eighth" in one[1]) == is_eighth][:1]
    yield from first
    yield from (one for one in experts(ranks) if one not in first and one[0].startswith("moe-tp "))


def unseen(ranks):
    """Tokens that the ranks share evenly, since libraries take no others."""
    for turn in range(2):
        for model in MODELS:
            for kind in ("moe-ep", "moe-tp"):
                draw = random.Random(f"unseen {model} {kind} {turn}")
                each = max(1, round((MOST_TOKENS / ranks) ** draw.random()))
                tokens = each if kind == "moe-ep" else each * ranks
                yield list(experts_of(model, (kind,), (tokens,), (tokens,), ranks))[-1 if turn else 0]


LISTS = {"dense": dense, "experts": experts, "moved": moved, "routed": routed, "unseen": unseen}


def text_of(name, ranks):
    lines = [f"# Layers on {ranks} GPUs: {name}. Made by bench/shapes/layers.py."]
    lines += [f"{operator} ranks={ranks}  # {what}" for operator, what in LISTS[name](ranks)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("list", choices=LISTS)
    parser.add_argument("--on", type=int, default=2, help="ranks")
    args = parser.parse_args()
    print(text_of(args.list, args.on), end="")


if __name__ == "__main__":
    main()
