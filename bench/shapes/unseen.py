#!/usr/bin/env python3
"""Shapes that nothing is tuned on: of published models, at row counts that nobody chose.

    bench/shapes/unseen.py > bench/shapes/unseen.txt     the kept list, again
    bench/shapes/unseen.py --on 2                        the same for 2 GPUs, as shapes files have them
    bench/shapes/unseen.py --on 2 --mixed                in an order that has some of every kind at any place

Each model of models/published.json has one linear at each of 2, 4 and 8 ranks: which one, whether the sum of a
row-parallel one is scattered or goes to all, and M, log-uniform from 1 to 16384, come from a fixed seed and the
model's name, so that a new model changes no other's shapes. Nothing of this list may be measured into a tuning file
that is shipped (tests/tune/unseen_test.cpp); what is measured on it goes to bench/results.

Routed models but Mixtral, whose attention is in the list, came when it had been measured, and are left out.

With --on R, shapes of more ranks than R have what their ranks share scaled to R, so that each GPU multiplies what it
would in the larger job, and shapes of fewer ranks are left out.
"""

import argparse
import hashlib
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent.parent / "models" / "published.json"
SEED, RANKS, MOST_ROWS = "unseen", (2, 4, 8), 16384
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
KEPT_ROUTED = "mixtral-8x7b"


def linears(model, ranks):
    """(name, is a gather, N, K) of a dense model's layer, as src/model has them; experts are left out."""
    hidden, heads = model["hidden_size"], model["num_attention_heads"]
    head_dim = model["head_dim"]
    kv_heads = max(model.get("num_key_value_heads", heads), min(ranks, heads))
    found = [("qkv", True, (heads + 2 * kv_heads) * head_dim, hidden),
             ("out", False, hidden, heads * head_dim)] if heads % ranks == 0 and (
                 kv_heads % ranks == 0) else []
    if model.get("num_local_experts", 0) > 1:
        return found
    inside = model["intermediate_size"]
    gated = model.get("model_type") != "gpt3"
    return [*found, ("gate_up" if gated else "up", True, (2 if gated else 1) * inside, hidden),
            ("down", False, hidden, inside)]


def shapes():
    for name, model in json.loads(MODELS.read_text(encoding="utf-8")).items():
        if name != KEPT_ROUTED and any(key in model for key in EXPERTS):
            continue
        for ranks in RANKS:
            key = hashlib.sha256(f"{SEED} {name} {ranks}".encode()).digest()
            draw = random.Random(int.from_bytes(key[:8], "big"))
            choices = linears(model, ranks)
            if not choices:
                continue
            linear, gathers, n, k = choices[int(draw.random() * len(choices))]
            kind = "ag-gemm" if gathers else ("gemm-rs", "gemm-ar")[int(draw.random() * 2)]
            m = round(MOST_ROWS ** draw.random())
            yield kind, m, n, k, ranks, f"{name} {linear}"


def on_gpus(ranks):
    for kind, m, n, k, of, what in shapes():
        if of < ranks:
            continue
        share = of // ranks
        n, k = (n // share, k) if kind == "ag-gemm" else (n, k // share)
        yield kind, m, n, k, what + (f", as one of {of}" if share > 1 else "")


def mixed(shapes):
    """In an order that their texts draw."""
    return sorted(shapes, key=lambda shape: hashlib.sha256(str(shape).encode()).digest())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--on", type=int, choices=RANKS, help="GPUs that there are")
    parser.add_argument("--mixed", action="store_true", help="for a measurement that may be cut off")
    args = parser.parse_args()
    if args.mixed and not args.on:
        parser.error("--mixed goes with --on")
    if args.on:
        for kind, m, n, k, what in mixed(on_gpus(args.on)) if args.mixed else on_gpus(args.on):
            print(f"{kind} m={m} n={n} k={k}  # {what}")
        return
    print("# Never tuned on. Written by bench/shapes/unseen.py, which says how.")
    for kind, m, n, k, ranks, what in shapes():
        print(f"{kind} m={m} n={n} k={k} ranks={ranks}  # {what}")


if __name__ == "__main__":
    main()
