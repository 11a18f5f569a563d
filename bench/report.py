#!/usr/bin/env python3
"""Writes docs/performance.md, and its plots with --plots, from bench/results/*.json.

    bench/report.py            rewrite the page
    bench/report.py --plots    and docs/plots/*.svg (needs matplotlib)
    bench/report.py --check    exit 1 when the page is not what the results say

Every figure of the page comes from a results file; nothing on it is typed by hand.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys

from language_section import language_section, torch_all_reduces
from summary import (chosen, fused_rows, geometric_mean, parse_operator, session, summary, table,
                     torch_times)

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"


def load_results():
    results = [(path, json.loads(path.read_text(encoding="utf-8")))
               for path in sorted(RESULTS.glob("*.json"))]
    return [(path, result) for path, result in results if "benchmark" in result]


def gemm_section(path, result):
    rows = result["rows"]
    body = [[f"{r['m']}", f"{r['n']}", f"{r['k']}", f"{r['cublas_us']:.1f}", f"{r['time_us']:.1f}",
             f"{r['low_us']:.1f}–{r['high_us']:.1f}", f"{r['ratio']:.3f}"] for r in rows]
    large = [r["ratio"] for r in rows if r["m"] >= 2048]
    small = [r["ratio"] for r in rows if r["m"] < 2048]
    summary = ", ".join(
        f"{geometric_mean(ratios):.3f} at M {bound} 2048 (worst row {min(ratios):.3f})"
        for ratios, bound in ((large, ">="), (small, "<")) if ratios)
    return "\n\n".join([
        f"## The GEMM alone, {result['machine']}",
        f"Source: `{path.relative_to(ROOT)}` at commit {result['commit']}, {result['date']}; "
        f"{result['data']} data. Ratio: cuBLAS over Stretto; geometric mean {summary}.",
        table(["M", "N", "K", "cuBLAS, us", "Stretto, us", "spread", "ratio"], body)])


PARTS = ("waiting_us", "multiplying_us", "adding_us", "ending_us", "rest_us")


def parts_table(group):
    """Where the time of the fastest schedules goes; nothing where no row knows."""
    body = [[f"{row.m} {row.n} {row.k}", f"{row.gemm:.1f}", f"{row.contestants[0].time:.1f}"]
            + [f"{row.contestants[0].parts[part]:.1f}" for part in PARTS]
            for row in group if row.contestants[0].parts]
    if not body:
        return []
    return ["Where the time of the fastest goes, means over the SMs that multiply, of runs whose kernels note "
            "the time: they wait for other ranks, multiply, add what others sent, and are past their last tile "
            "before the rank is; the rest is first operands, stores and boundaries.",
            table(["M N K", "GEMM", "Stretto", "waiting", "multiplying", "adding", "ending", "rest"],
                  body)]


def prediction_errors(rows):
    """What the simulation that measured beside the GPUs made of them; nothing where no row knows."""
    errors = [(one.predicted / one.time - 1, row, one)
              for row in rows for one in row.contestants if one.predicted]
    if not errors:
        return []
    median = statistics.median(abs(error) for error, _, _ in errors)
    worst, row, one = max(errors, key=lambda found: abs(found[0]))
    return [f"*Predicted*: by the simulation of that commit. Over {len(errors)} timed schedules its median error is "
            f"{median:.1%}, the worst {worst:+.0%} ({row.operator} {row.m} {row.n} {row.k}, `{one.name}`)."]


def title(of, ranks, result):
    turn_ms = result.get("turn_ms", 0)
    return f"## {of}, {ranks} x {result['machine']}" + (f", turns of {turn_ms:g} ms" if turn_ms else "")


def turns(result):
    return "The second half of a turn is timed. " if result.get("turn_ms", 0) else ""


def fused_section(path, result, torch_rows):
    rows = fused_rows(result)
    by_operator = collections.defaultdict(list)
    for row in rows:
        by_operator[row.operator].append(row)
    parts = [title("Fused operators", rows[0].ranks, result),
             f"Source: `{path.relative_to(ROOT)}` at commit {result['commit']}, {result['date']}; "
             f"{result['data']} data; sizes are global. {turns(result)}The bars are those for 8 GPUs."
             + (f" {result['note']}" if "note" in result else ""),
             summary(result, torch_rows), *prediction_errors(rows), f"![times faster](plots/{path.stem}.svg)"]
    for operator, group in by_operator.items():
        body = []
        for row in group:
            best = chosen(row)
            other = torch_rows.get((*session(result), *row[:5]))
            body.append([
                f"{row.m} {row.n} {row.k}", f"{row.gemm:.0f}", f"{row.nccl:.0f}",
                f"{row.sequential:.0f}", f"{other['fused_us']:.0f}" if other else "-",
                f"{best.time:.0f}", f"{best.low:.0f}–{best.high:.0f}",
                f"{best.predicted:.0f}" if best.predicted else "-", f"`{best.name}`",
                f"{row.sequential / best.time:.2f}", f"{row.floor / best.time:.2f}"])
        mean = geometric_mean(row.sequential / chosen(row).time for row in group)
        parts.append(f"### {operator}: {mean:.2f}x over the library path (geometric mean)")
        parts.append(table(["M N K", "GEMM", "NCCL", "sequence", "PyTorch fused", "Stretto",
                            "spread", "predicted", "schedule", "x sequence", "floor / measured"], body))
        parts += parts_table(group)
    return "\n\n".join(parts)


def beside_torch_section(path, result):
    """PyTorch's paths and Stretto in the same processes on the same tensors; nothing where it took no part."""
    rows = [row for row in result["rows"] if "stretto_us" in row]
    if not rows:
        return []
    by_operator = collections.defaultdict(list)
    for row in rows:
        by_operator[parse_operator(row["operator"])[0]].append(row)
    parts = [title("In one session with PyTorch", result["ranks"], result),
             f"Source: `{path.relative_to(ROOT)}` at commit {result['commit']}, PyTorch {result['torch']}: the "
             f"same processes and tensors, graphs of ten runs in turns, each path verified. {turns(result)}Stretto through its "
             f"Python binding, schedule {result['stretto']['schedule']}, {result['stretto']['rows']} rows."]
    for operator, group in by_operator.items():
        body = []
        for row in group:
            _, m, n, k, _ = parse_operator(row["operator"])
            rivals = [row.get(f"{label}_us") for label in ("sequential", "fused")]
            body.append([f"{m} {n} {k}"]
                        + [f"{row[key]:.1f}" if key in row else "failed"
                           for key in ("gemm_us", "nccl_us", "sequential_us", "fused_us", "stretto_us")]
                        + [f"{row['stretto_low_us']:.1f}–{row['stretto_high_us']:.1f}"]
                        + [f"{rival / row['stretto_us']:.2f}" if rival else "-" for rival in rivals])
        means = [geometric_mean(row[f"{label}_us"] / row["stretto_us"] for row in group
                                if f"{label}_us" in row) for label in ("sequential", "fused")]
        parts.append(f"### {operator}: {means[0]:.2f}x PyTorch's NCCL and matmul, {means[1]:.2f}x its fused operator "
                     "(geometric means)")
        parts.append(table(["M N K", "GEMM", "NCCL", "NCCL + matmul", "PyTorch fused", "Stretto", "spread",
                            "x NCCL + matmul", "x fused"], body))
    return ["\n\n".join(parts)]


def page(results):
    torch_rows = torch_times(results)
    sections = [
        "# Performance",
        "Generated by `bench/report.py` from `bench/results/`; do not edit.",
        "Times are microseconds, medians, the slowest rank's. *GEMM*: cuBLAS alone. *NCCL*: its "
        "collective alone. *Sequence*: both, one after the other, in one CUDA graph of ten runs. "
        "*PyTorch fused*: AsyncTP (for gemm-ar: matmul, then two-shot all-reduce). *Floor*: the "
        "larger of the GEMM alone and the bytes that leave a GPU at 320 GB/s. NVLink multicast is "
        "off everywhere."]
    for path, result in results:
        if result["benchmark"] == "gemm":
            sections.append(gemm_section(path, result))
        elif result["benchmark"] == "fused":
            sections.append(fused_section(path, result, torch_rows))
        elif result["benchmark"] == "torch":
            sections += beside_torch_section(path, result)
        elif result["benchmark"] == "device language":
            others = torch_all_reduces(results).get((result["machine"], result["ranks"]), {})
            sections.append(language_section(path.relative_to(ROOT), result, others))
    return "\n\n".join(sections) + "\n"


def draw(results):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stretto"  # the same file from the same results
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines: a third of the bytes
    from matplotlib import pyplot

    torch_rows = torch_times(results)
    PLOTS.mkdir(exist_ok=True)
    for path, result in results:
        if result["benchmark"] != "fused":
            continue
        rows = fused_rows(result)
        figure, axes = pyplot.subplots(figsize=(9, 0.28 * len(rows) + 1.2))
        places = range(len(rows), 0, -1)
        axes.barh(places, [r.sequential / chosen(r).time for r in rows], height=0.7,
                  color="#2a6f97", label="Stretto")
        others = [(place, row.sequential / other["fused_us"])
                  for place, row in zip(places, rows)
                  if (other := torch_rows.get((*session(result), *row[:5])))]
        if others:
            axes.plot([x for _, x in others], [y for y, _ in others], "o", color="#e76f51",
                      label="PyTorch fused")
        axes.plot([r.sequential / r.floor for r in rows], list(places), "|", color="black",
                  markersize=12, label="floor")
        axes.axvline(1, color="gray", linewidth=0.8)
        axes.set_ylim(0, len(rows) + 1)
        axes.set_yticks(list(places), [f"{r.operator} {r.m} {r.n} {r.k}" for r in rows],
                        fontsize=8)
        axes.set_xlabel(f"times faster than NCCL + cuBLAS, {rows[0].ranks} x {result['machine']}")
        axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
        figure.tight_layout()
        figure.savefig(PLOTS / f"{path.stem}.svg", metadata={"Date": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plots", action="store_true")
    args = parser.parse_args()
    results = load_results()
    text = page(results)
    if args.check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            sys.exit(f"{PAGE.relative_to(ROOT)} is not what bench/results says: run bench/report.py")
        return
    PAGE.write_text(text, encoding="utf-8")
    if args.plots:
        draw(results)


if __name__ == "__main__":
    main()
