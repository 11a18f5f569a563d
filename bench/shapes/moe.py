#!/usr/bin/env python3
"""Shapes of layers of experts, of the models that bench/shapes/moe_layers.py has.

    bench/shapes/moe.py tp --on 2 > bench/shapes/moe_tp_on_2.txt
    bench/shapes/moe.py tp8_local --on 2 > bench/shapes/moe_tp8_local_on_2.txt
    bench/shapes/moe.py ep --on 2 > bench/shapes/moe_ep_on_2.txt
    bench/shapes/moe.py ep8_local --on 2 > bench/shapes/moe_ep8_local_on_2.txt
    bench/shapes/moe.py moved --on 2 > bench/shapes/moe_moved_on_2.txt

Of tensor parallelism (`moe-tp` and its halves) t is what all ranks have together, of expert parallelism so much for
each rank; and of rows that are only moved to experts (`moved`). A local list scales what ranks share so that each has an eighth of it: inner columns, or experts.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.shapes.moe_layers import MODELS  # noqa: E402

LISTS = ("tp", "tp8_local", "ep", "ep8_local", "moved")
TP_TOKENS, LOCAL_TOKENS, TOKENS_OF_RANK = (64, 1024, 4096, 16384), (64, 1024, 8192), (16, 128, 1024, 8192)


def shapes(name, ranks):
    """(operator, t, h, f, experts, k, model); f is None where nobody multiplies."""
    for model, (hidden, inner, experts, top_k) in MODELS.items():
        if name == "moved":
            for kind in ("dispatch", "combine", "dispatch-combine"):
                for tokens in TOKENS_OF_RANK:
                    yield kind, tokens * ranks, hidden, None, experts, top_k, model
            continue
        if name.startswith("tp"):
            is_local = name == "tp8_local"
            for kind in ("moe-tp-up", "moe-tp-down", "moe-tp"):
                for tokens in LOCAL_TOKENS if is_local else TP_TOKENS:
                    yield kind, tokens, hidden, inner * ranks // 8 if is_local else inner, experts, top_k, model
            continue
        here = experts * ranks // 8 if name == "ep8_local" else experts
        for tokens in TOKENS_OF_RANK:
            if top_k <= here:
                yield "moe-ep", tokens * ranks, hidden, inner, here, top_k, model


def text_of(name, ranks):
    lines = [f"# Layers of experts on {ranks} GPUs: {name}. Made by bench/shapes/moe.py."]
    for kind, t, h, f, experts, k, model in shapes(name, ranks):
        inner = f" f={f}" if f is not None else ""
        lines.append(f"{kind} t={t} h={h}{inner} experts={experts} k={k} ranks={ranks}  # {model}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("list", choices=LISTS)
    parser.add_argument("--on", type=int, default=2, help="ranks")
    args = parser.parse_args()
    print(text_of(args.list, args.on), end="")


if __name__ == "__main__":
    main()
