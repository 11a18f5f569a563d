"""The pages of docs/performance: which result stands on which, and what the pages say."""

import collections
import re

from bench.report.efficiency import efficiency_sections
from bench.report.expert_bars import bars_section, measured_rates
from bench.report.history import is_history, note_on
from bench.report.sections.fused import beside_torch_section, fused_section
from bench.report.sections.gemm import few_rows_section, gemm_section
from bench.report.sections.graphs import graphs_section, is_of_graphs
from bench.report.sections.grouped import choice_section, grouped_section
from bench.report.sections.language import language_section, torch_all_reduces
from bench.report.sections.layers import layers_section
from bench.report.sections.models import models_section
from bench.report.sections.moe import moe_section
from bench.report.sections.one_rank import one_rank_section
from bench.report.summary import torch_times
from bench.report.wrapped import wrap_page

Page = collections.namedtuple("Page", "file title about kinds")

# As a reader comes to them; the kinds of a page in the order of its sections.
PAGES = (
    Page("fused.md", "Fused operators", "`ag-gemm`, `gemm-rs` and `gemm-ar` beside cuBLAS and NCCL",
         ("fused", "fused, others")),
    Page("pytorch.md", "Fused operators beside PyTorch", "the same beside PyTorch's, in one session each", ("torch",)),
    Page("layers.md", "Layers", "MLPs, norms, decoder layers, all-to-alls and experts on two GPUs, beside libraries",
         ("layers", "graphs")),
    Page("efficiency.md", "Efficiency of layers",
         "floors that arithmetic or products alone set, what each layer takes, and which bars that meets", ()),
    Page("models.md", "Whole models", "steps of models in PyTorch", ("models",)),
    Page("one-gpu.md", "One GPU", "products, products of experts, and layers of experts by one rank alone",
         ("gemm", "few_rows", "grouped", "grouped choice", "moe", "bench")),
    Page("device-language.md", "The device language", "its collectives and movers beside NCCL", ("device language",)),
)
EFFICIENCY = next(page for page in PAGES if page.file == "efficiency.md")  # of all results, each row's last
HISTORY = Page("history.md", "Earlier runs", "what later runs have taken the place of, and runs again", ())
KINDS = tuple(kind for page in PAGES for kind in page.kinds)
FOLDER = "performance"


def kind_of(result):
    if is_of_graphs(result):
        return "graphs"
    return "fused, others" if result["benchmark"] == "fused" and "of" in result else result["benchmark"]


def place_of(path, result):
    """Results of one kind stand together, those of more GPUs first."""
    kind = kind_of(result)
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), result.get("of", ""), result.get("turn_ms", 0),
            -(result.get("ranks") or 1), path.name)


def page_of(path, result):
    """None for results that no page has."""
    kind = kind_of(result)
    found = next((page for page in PAGES if kind in page.kinds), None)
    return HISTORY if found and is_history(path) else found


def anchor(heading):
    """What GitHub makes of "## A heading, so": #a-heading-so."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def section_of(source, result, results):
    kind = result["benchmark"]
    if is_of_graphs(result):
        return graphs_section(source, result)
    if kind == "layers":
        return "\n\n".join([layers_section(source, result), *bars_section(result, measured_rates())])
    if kind == "fused":
        return fused_section(source, result, torch_times(results))
    if kind == "device language":
        others = torch_all_reduces(results).get((result["machine"], result["ranks"]), {})
        return language_section(source, result, others)
    by_kind = {"gemm": gemm_section, "few_rows": few_rows_section, "grouped": grouped_section,
               "grouped choice": choice_section, "moe": moe_section, "bench": one_rank_section,
               "models": models_section, "torch": beside_torch_section}
    return by_kind[kind](source, result)


def noted(path, section):
    """A superseded result's section says so below its heading."""
    heading, rest = section.split("\n", 1)
    return f"{heading}\n\n{note_on(path)}\n{rest}"


def sections(results, root):
    """By page, the texts of its sections, in order."""
    found = {page: [] for page in (*PAGES, HISTORY)}
    for path, result in results:
        page = page_of(path, result)
        text = section_of(path.relative_to(root), result, results) if page else ""
        if text:
            found[page].append(noted(path, text) if page is HISTORY else text)
    found[EFFICIENCY] = efficiency_sections(results)
    return found


def contents(texts):
    headings = [text.split("\n", 1)[0].lstrip("# ") for text in texts]
    return "\n".join(f"- [{heading}]({anchor(heading)})" for heading in headings)


def page_text(page, texts):
    return wrap_page("\n\n".join([
        f"# Performance: {page.title[0].lower()}{page.title[1:]}",
        "Generated by `bench/report/write.py` from `bench/results/`; do not edit. [The summary](../performance.md) says what "
        "the columns mean.",
        contents(texts), *texts]) + "\n")
