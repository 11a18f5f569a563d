#!/usr/bin/env python3
"""The pictures of the README: docs/plots/hidden.svg and docs/plots/models.svg.

    bench/report/pictures.py            write both
    bench/report/pictures.py --check    exit 1 when they are others

--stretto names the command; without it that of the build that was made last draws.

The first is a simulation, drawn by `stretto report --svg`; the second is from bench/results. Both can
be read on light and on dark ground.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLOTS = ROOT / "docs" / "plots"
RESULTS = ROOT / "bench" / "results" / "torch_h200_x4.json"
HIDDEN = ["gemm-rs", "m=8192", "n=8192", "k=28672", "--ranks", "8", "--strategy", "sequential,tiles,decomposed"]

# Each GPU of 4 multiplies what it would under tensor parallelism of 8, so the sharded sizes are halves.
MODELS = [
    ("Llama 3 8B", [("gate, up", "ag-gemm", 14336, 4096), ("down", "gemm-rs", 4096, 7168)]),
    ("Llama 3 70B", [("qkv", "ag-gemm", 5120, 8192), ("out", "gemm-rs", 8192, 4096),
                     ("gate, up", "ag-gemm", 28672, 8192), ("down", "gemm-rs", 8192, 14336)]),
    ("GPT-3 175B", [("up", "ag-gemm", 24576, 12288), ("down", "gemm-rs", 12288, 24576)]),
]
ROWS = (2048, 8192)

STYLE = ("text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2430}"
         ".title{font-size:15px;font-weight:600}.name{font-weight:600}.faint{fill:#66707d}.small{font-size:11.5px}"
         ".line{stroke:#d9dde3}.one{stroke:#66707d}.stretto{fill:#3b7dd8}.torch{fill:#e0a458}"
         "@media(prefers-color-scheme:dark){text{fill:#e6eaf0}.faint{fill:#98a3b1}.line{stroke:#343c48}"
         ".one{stroke:#98a3b1}.stretto{fill:#5b9bf0}.torch{fill:#d9a35f}}")
WIDTH, LEFT, RIGHT, TOP, HEIGHT = 860, 44, 16, 92, 150
PANEL = HEIGHT + 92
MOST = 1.9  # times as fast, at the top of a panel


def speed_ups():
    """(operator, m, n, k) -> times as fast as cuBLAS, then NCCL: of Stretto and of PyTorch."""
    found = {}
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]:
        kind, *sizes = row["operator"].split()
        sizes = dict(size.split("=") for size in sizes)
        found[kind, int(sizes["m"]), int(sizes["n"]), int(sizes["k"])] = (
            row["sequential_us"] / row["stretto_us"], row["sequential_us"] / row["fused_us"])
    return found


def panel(rows, top, times):
    """Bars of all linears at so many rows."""
    bottom = top + HEIGHT
    lines = [f'<text class="name" x="{LEFT}" y="{top - 14}">{rows} rows</text>']
    for tick in (0.5, 1.0, 1.5):
        y = bottom - tick / MOST * HEIGHT
        lines.append(f'<line class="{"one" if tick == 1 else "line"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text class="faint small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    linears = sum(len(of) for _, of in MODELS)
    gap = 26
    wide = (WIDTH - LEFT - RIGHT - gap * len(MODELS)) / linears
    x = LEFT + gap / 2
    for model, of in MODELS:
        middle = x + wide * len(of) / 2
        lines.append(f'<text class="name" x="{middle:.1f}" y="{bottom + 38}" text-anchor="middle">{model}</text>')
        for name, operator, n, k in of:
            stretto, torch = times[operator, rows, n, k]
            bar = wide * 0.36
            for kind, value, left in (("torch", torch, x + wide * 0.13), ("stretto", stretto, x + wide * 0.51)):
                high = value / MOST * HEIGHT
                lines.append(f'<rect class="{kind}" x="{left:.1f}" y="{bottom - high:.1f}" width="{bar:.1f}" height="{high:.1f}"/>')
                lines.append(f'<text class="small{"" if kind == "stretto" else " faint"}" x="{left + bar / 2:.1f}" '
                             f'y="{bottom - high - 5:.1f}" text-anchor="middle">{value:.2f}</text>')
            lines.append(f'<text class="faint" x="{x + wide / 2:.1f}" y="{bottom + 18}" text-anchor="middle">{name}</text>')
            x += wide
        x += gap
    lines.append(f'<line class="one" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    return lines


def models():
    times = speed_ups()
    height = TOP + PANEL * len(ROWS) - 34
    title = "Times as fast as cuBLAS, then NCCL: tensor-parallel linears on 4 x H200, bf16"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
             f"<title>{title}</title>", f"<style>{STYLE}</style>", f'<text class="title" x="{LEFT}" y="24">{title}</text>']
    for kind, name, x in (("torch", "PyTorch AsyncTP", LEFT), ("stretto", "Stretto, schedule by auto", LEFT + 150)):
        lines.append(f'<rect class="{kind}" x="{x}" y="38" width="12" height="12"/><text x="{x + 18}" y="49">{name}</text>')
    for i, rows in enumerate(ROWS):
        lines += panel(rows, TOP + i * PANEL, times)
    return "\n".join([*lines, "</svg>", ""])


def hidden(stretto):
    return subprocess.run([stretto, "report", *HIDDEN, "--svg", "-o", "-"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def last_built():
    built = sorted(ROOT.glob("build/*/src/cli/stretto"), key=lambda path: path.stat().st_mtime)
    return str(built[-1]) if built else "stretto"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stretto", default=last_built(), help="the command")
    parser.add_argument("--check", action="store_true", help="exit 1 when the pictures are others")
    args = parser.parse_args()
    wrong = []
    for name, picture in (("hidden.svg", hidden(args.stretto)), ("models.svg", models())):
        path = PLOTS / name
        if not args.check:
            path.write_text(picture, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != picture:
            wrong.append(name)
    if wrong:
        sys.exit(f"docs/plots/{' and '.join(wrong)}: other than what is drawn now: run bench/report/pictures.py")


if __name__ == "__main__":
    main()
