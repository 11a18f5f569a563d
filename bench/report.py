#!/usr/bin/env python3
"""Writes docs/performance.md, and its plots with --plots, from bench/results/*.json; and the tables of
README.md and docs/results.md.

    bench/report.py            rewrite the pages
    bench/report.py --plots    and docs/plots/*.svg (needs matplotlib)
    bench/report.py --check    exit 1 when a page is not what the results say

Every figure of these comes from a results file; none is typed by hand.
"""

import argparse
import json
import pathlib
import re
import sys

from expert_bars import bars_section, measured_rates
from fused_section import beside_torch_section, fused_section, title
from gemm_section import few_rows_section, gemm_section
from graphs_section import graphs_section, is_of_graphs
from grouped_section import grouped_section
from language_section import language_section, torch_all_reduces
from layers_section import layers_section
from models_section import models_section
from moe_section import moe_section
from one_rank_section import one_rank_section
from results_tables import tables, with_tables
from summary import BARS, at_a_glance, table, torch_times
from wrapped import wrap_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"
WITH_TABLES = (ROOT / "README.md", ROOT / "docs" / "results.md")

# As a reader comes to them: what was tuned for, PyTorch beside it, what was not, and the parts.
KINDS = ("fused", "torch", "layers", "graphs", "fused, others", "gemm", "grouped", "moe", "bench", "device language")


def kind_of(result):
    if is_of_graphs(result):
        return "graphs"
    return "fused, others" if result["benchmark"] == "fused" and "of" in result else result["benchmark"]


def place_of(path, result):
    """Results of one kind stand together, those of more GPUs first."""
    kind = kind_of(result)
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), result.get("of", ""), result.get("turn_ms", 0),
            -(result.get("ranks") or 1), path.name)


def load_results():
    results = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob("*.json")]
    return sorted(((path, result) for path, result in results if "benchmark" in result),
                  key=lambda found: place_of(*found))


def anchor(heading):
    """What GitHub makes of "## A heading, so": #a-heading-so."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def glance_section(results, torch_rows):
    bars = [["bars, for 8 GPUs", operator, f"{bar.large:.2f}", f"{bar.small:.2f}", f"{bar.efficiency:.2f}", "1.00 (1.00)", "0", "0"]
            for operator, bar in BARS.items()]
    body = []
    for _, result in results:
        if result["benchmark"] == "fused" and not is_of_graphs(result):
            heading = title("Fused operators", result)
            body += [[f"[{heading.lstrip('# ')}]({anchor(heading)})", *cells]
                     for cells in at_a_glance(result, torch_rows)]
    return "\n\n".join([
        "## At a glance",
        "How many times as fast as the sequence, and as PyTorch's fused operators: geometric means, and the worst "
        "row's. *Behind*: rows that are slower.",
        table(["measured", "operator", "x sequence, M >= 2048", "x sequence, M < 2048", "efficiency, M >= 4096",
               "x PyTorch fused", "behind the sequence", "behind PyTorch"], bars + body)])


def contents(sections):
    headings = [line for section in sections for line in section.splitlines() if line.startswith("## ")]
    return "\n".join(f"- [{heading.lstrip('# ')}]({anchor(heading)})" for heading in headings)


def page(results):
    torch_rows = torch_times(results)
    sections = [glance_section(results, torch_rows)]
    for path, result in results:
        source = path.relative_to(ROOT)
        if result["benchmark"] == "gemm":
            sections.append(gemm_section(source, result))
        elif result["benchmark"] == "few_rows":
            sections.append(few_rows_section(source, result))
        elif result["benchmark"] == "grouped":
            sections.append(grouped_section(source, result))
        elif is_of_graphs(result):
            sections.append(graphs_section(source, result))
        elif result["benchmark"] == "layers":
            sections.append("\n\n".join([layers_section(source, result), *bars_section(result, measured_rates())]))
        elif result["benchmark"] == "fused":
            sections.append(fused_section(source, result, torch_rows))
        elif result["benchmark"] == "torch":
            sections += beside_torch_section(source, result)
        elif result["benchmark"] == "moe":
            sections.append(moe_section(source, result))
        elif result["benchmark"] == "bench":
            sections.append(one_rank_section(source, result))
        elif result["benchmark"] == "models":
            sections.append(models_section(source, result))
        elif result["benchmark"] == "device language":
            others = torch_all_reduces(results).get((result["machine"], result["ranks"]), {})
            sections.append(language_section(source, result, others))
    head = [
        "# Performance",
        "Generated by `bench/report.py` from `bench/results/`; do not edit.",
        "Times are microseconds, medians, the slowest rank's. *GEMM*: cuBLAS alone. *NCCL*: its "
        "collective alone. *Sequence*: both, one after the other, in one CUDA graph of ten runs. "
        "*PyTorch fused*: AsyncTP (for gemm-ar: matmul, then two-shot all-reduce). *Floor*: the "
        "larger of the GEMM alone and the bytes that leave a GPU at 320 GB/s; *efficiency* is the floor "
        "over what was measured. NVLink multicast is off everywhere.",
        contents(sections)]
    return wrap_page("\n\n".join(head + sections) + "\n")


def pages(results):
    """By path."""
    by_name = {path.name: result for path, result in results}
    of_figures = tables(by_name, torch_times(results))
    return {PAGE: page(results),
            **{path: with_tables(path.read_text(encoding="utf-8"), of_figures) for path in WITH_TABLES}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plots", action="store_true")
    args = parser.parse_args()
    results = load_results()
    written = pages(results)
    if args.check:
        wrong = [str(path.relative_to(ROOT)) for path, text in written.items()
                 if not path.exists() or path.read_text(encoding="utf-8") != text]
        if wrong:
            sys.exit(f"{', '.join(wrong)}: other than bench/results says; run bench/report.py")
        return
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    if args.plots:
        from plots import draw

        draw(results, PLOTS)


if __name__ == "__main__":
    main()
