"""docs/performance.md: what the measurements add up to, and which page has the rows of each."""

from bench.report.history import has_later_rows, is_history, is_in_part, last_rows
from bench.report.pages import FOLDER, HISTORY, PAGES, anchor, page_of
from bench.report.results_tables import one_gpu_table
from bench.report.sections.fused import title
from bench.report.sections.graphs import chosen as chosen_of_graph, is_of_graphs
from bench.report.sections.layers import kind_of, ratios
from bench.report.sections.models import alone_us, best_of
from bench.report.summary import BARS, at_a_glance, geometric_mean, mean_and_worst, table
from bench.report.wrapped import wrap_page

WORDS = ("Times are microseconds, medians, the slowest rank's. *GEMM*: cuBLAS alone. *NCCL*: its collective alone. "
         "*Sequence*: both, one after the other, in one CUDA graph of ten runs. *PyTorch fused*: AsyncTP (for gemm-ar: "
         "matmul, then two-shot all-reduce). *Floor*: the larger of the GEMM alone and the bytes that leave a GPU at "
         "320 GB/s; *efficiency* is the floor over what was measured. Speed-ups are geometric means, and the worst "
         "row's in brackets. NVLink multicast is off everywhere.")


def rows_with_link(page, heading, rows):
    """Rows of one result: its name leads to its section, and stands once."""
    link = f"[{heading}]({FOLDER}/{page.file}{anchor(heading)})"
    return [["" if i else link, *cells] for i, cells in enumerate(rows)]


def current(results, kind):
    return [(path, result) for path, result in results if result["benchmark"] == kind and not is_history(path)]


def fused_table(results, torch_rows):
    body = [["" if i else "bars, for 8 GPUs", operator, f"{bar.large:.2f}", f"{bar.small:.2f}", f"{bar.efficiency:.2f}",
             "1.00 (1.00)", "0", "0"] for i, (operator, bar) in enumerate(BARS.items())]
    for path, result in current(results, "fused"):
        if not is_of_graphs(result):
            heading = title("Fused operators", result).lstrip("# ")
            body += rows_with_link(page_of(path, result), heading, at_a_glance(result, torch_rows))
    return table(["measured", "operator", "x sequence, M >= 2048", "x sequence, M < 2048", "efficiency, M >= 4096",
                  "x PyTorch fused", "behind the sequence", "behind PyTorch"], body)


def layer_rows(all_rows):
    rows = [row for row in all_rows if "us" in row]
    for kind in dict.fromkeys(map(kind_of, rows)):
        found = ratios([row for row in rows if kind_of(row) == kind])
        most = f"{geometric_mean(found['most']):.2f}" if found["most"] else "-"
        yield [kind, f"{len(found['library'])}", mean_and_worst(found["library"]), mean_and_worst(found["nccl"]), most]


def graph_rows(result):
    timed = [row for row in result["rows"] if chosen_of_graph(row)]
    for kind in dict.fromkeys(map(kind_of, timed)):
        over = [row["sequential_us"] / chosen_of_graph(row)[0] for row in timed
                if kind_of(row) == kind and row.get("sequential_us")]
        yield [kind, f"{len(over)}", "-", mean_and_worst(over), "-"]


def layers_table(results, by_name):
    body = []
    for path, result in current(results, "layers"):
        if is_in_part(path):
            continue
        heading = title("Layers beside libraries", result).lstrip("# ")
        rows = rows_with_link(page_of(path, result), heading, layer_rows(last_rows(path, result, by_name)))
        if has_later_rows(path):
            rows[0][0] += ", each row by its last run"
        body += rows
    for path, result in current(results, "fused"):
        if is_of_graphs(result):
            heading = title("Operators of several products", result).lstrip("# ")
            body += rows_with_link(page_of(path, result), heading, graph_rows(result))
    return table(["measured", "operator", "rows", "x fastest library", "x cuBLAS and NCCL", "in reach"], body)


def model_rows(result):
    by_step = {}
    for row in result["rows"]:
        theirs, ours = best_of(row, False), best_of(row, True)
        if theirs and ours:
            by_step.setdefault(row["kind"], []).append((theirs[1]["us"] / ours[1]["us"],
                                                        theirs[1]["us"] / alone_us(row) if alone_us(row) else None))
    for step, found in by_step.items():
        most = [limit for _, limit in found if limit]
        yield [step, f"{len(found)}", mean_and_worst([ratio for ratio, _ in found]),
               f"{geometric_mean(most):.2f}" if most else "-"]


def models_table(results):
    body = []
    for path, result in current(results, "models"):
        heading = title("Whole models in PyTorch", result).lstrip("# ")
        body += rows_with_link(page_of(path, result), heading, model_rows(result))
    return table(["measured", "step", "rows", "x PyTorch's fastest", "nothing communicated"], body)


def list_of_pages():
    return "\n".join(f"- [{page.title}]({FOLDER}/{page.file}): {page.about}." for page in (*PAGES, HISTORY))


def summary_text(results, torch_rows):
    by_name = {path.name: result for path, result in results}
    return wrap_page("\n\n".join([
        "# Performance",
        "Generated by `bench/report/write.py` from `bench/results/`; do not edit. [results.md](results.md) says the same in "
        "words, and what was not measured. Every row stands on a page of these:",
        list_of_pages(),
        WORDS,
        "## Fused operators",
        "*Behind*: rows that are slower.",
        fused_table(results, torch_rows),
        "## Layers on two GPUs",
        "*Fastest library*: of all sequences that took part. *In reach*: that library over the floor, which nothing "
        "that multiplies as these do can beat.",
        layers_table(results, by_name),
        "## Whole models",
        "*Nothing communicated*: PyTorch's fastest over the same step without communication, which no way can beat.",
        models_table(results),
        "## One GPU",
        one_gpu_table(by_name)]) + "\n")
