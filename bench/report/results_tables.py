"""The tables of figures in README.md and docs/results.md, which stand there between two comments.

    <!-- table NAME: written by bench/report/write.py -->
    ...
    <!-- end -->
"""

import re

from bench.report.sections.grouped import beside_library, times_of
from bench.report.sections.models import best_of
from bench.report.sections.moe import plans_of, products_us
from bench.report.summary import LARGE, at_a_glance, chosen, fused_rows, mean_and_worst, parse_operator, table

HEADS = ["shapes", "operator", f"M >= {LARGE}", f"M < {LARGE}", "over AsyncTP"]
# (what a row calls it, its file): every operator by itself.
TUNED = (("4 GPUs, {} tuned shapes", "operators_h200_x4.json"), ("2 GPUs, {} tuned shapes", "operators_h200_x2.json"))
EIGHT = "operators_h200_x8.json"
# The same over several files, all operators together.
POOLED = (("2 and 4 GPUs, {} shapes of 16 to 256 rows", ("few_rows_h200_x2.json", "few_rows_h200_x4.json")),
          ("3 and 4 GPUs, {} shapes that were never tuned",
           ("unmeasured_shapes_h200_x3.json", "unmeasured_shapes_h200_x4.json")))
AT_THE_LIMIT = (("2", "torch_steady_h200_x2.json", "{}"),
                ("4", "torch_steady_h200_x4.json", "{} of the 10 largest"))
# One GPU by itself: nothing is communicated.
GEMM, EXPERTS, LAYERS = "gemm_h200_x1.json", "grouped_shuffled_h200_x1.json", "moe_blocks_h100_x1.json"
TILES = "expert_tiles_chosen_h200_x1.json"
MODELS = (("steps of a model of Llama's shape, 4 layers", "models_h100_x1.json"),
          ("training steps of the same", "models_train_h100_x1.json"))
BLOCK = re.compile(r"(<!-- table (\w+): written by bench/report/write\.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def rows_by_operator(results, torch_rows, what, file):
    rows = at_a_glance(results[file], torch_rows)
    for i, (operator, large, small, _, beside_torch, *_) in enumerate(rows):
        yield ["" if i else what.format(len(results[file]["rows"])), operator, large, small, beside_torch]


def pooled_row(results, what, files):
    rows = [row for file in files for row in fused_rows(results[file])]
    cells = [mean_and_worst([row.sequential / chosen(row).time for row in rows if (row.m >= LARGE) == large])
             for large in (True, False)]
    return [what.format(len(rows)), "all", *(cell.replace("-", "") for cell in cells), ""]


def eight_gpus(results, torch_rows):
    """What `auto` chose there says which of the shapes had been tuned."""
    reasons = [one.get("reason", "") for row in results[EIGHT]["rows"] for one in row["strategies"]]
    tuned = sum("measured on this shape" in reason for reason in reasons)
    return rows_by_operator(results, torch_rows, f"8 GPUs, earlier code, {{}} shapes, {tuned} of them tuned", EIGHT)


def measured(results, torch_rows):
    return [row for what, file in TUNED for row in rows_by_operator(results, torch_rows, what, file)]


def beside_torch(result):
    """(times as fast as the sequence, as PyTorch's fused operator) of each row of a session."""
    return [(row["sequential_us"] / row["stretto_us"], row["fused_us"] / row["stretto_us"])
            for row in result["rows"] if "stretto_us" in row and "fused_us" in row]


def limit_rows(results):
    for gpus, file, what in AT_THE_LIMIT:
        of_rows = beside_torch(results[file])
        yield [gpus, what.format(len(of_rows)),
               *(f"{min(values):.2f} to {max(values):.2f}" for values in zip(*of_rows))]


def one_gpu_rows(results):
    """(what, GPU, beside what, count, times as fast): the mean, and the slowest."""
    def row(what, result, beside, ratios):
        return [what, result["machine"], beside, f"{len(ratios)}", mean_and_worst(ratios)]

    gemm, experts, layers = results[GEMM], results[EXPERTS], results[LAYERS]
    for words, large in ((f"from {LARGE} rows on", True), ("of fewer", False)):
        yield row(f"GEMM {words}", gemm, "cuBLAS",
                  [one["ratio"] for one in gemm["rows"] if (one["m"] >= LARGE) == large])
    times = [times_of(one) for one in experts["rows"]]
    yield row("products of experts", experts, "`torch._grouped_mm`", [torch / ours for ours, torch, _ in times])
    yield row("products of experts", experts, "DeepGEMM", [deep / ours for ours, _, deep in times if deep])
    tiles = results[TILES]
    for words, library in (("`torch._grouped_mm`", "torch"), ("DeepGEMM", "deepgemm")):
        ratios = [beside_library(one, library) for one in tiles["rows"]]
        yield row("products of a rank of 8, gate and up with SwiGLU", tiles, f"{words}, without SwiGLU",
                  [ratio for ratio in ratios if ratio])
    fastest = [(plans_of(one)[0][0], one) for one in layers["rows"]]
    yield row("layers of experts (`moe-ep`)", layers, "PyTorch, one CUDA graph",
              [one["us"]["torch"][0] / ours for ours, one in fastest])
    yield row("layers of experts (`moe-ep`)", layers, "their two products alone",
              [products_us(one) / ours for ours, one in fastest])
    for what, file in MODELS:
        both = [(best_of(one, False), best_of(one, True)) for one in results[file]["rows"]]
        yield row(what, results[file], "PyTorch, compiled", [theirs[1]["us"] / ours[1]["us"] for theirs, ours in both])


def one_gpu_table(results):
    return table(["what", "GPU", "beside", "shapes", "times as fast"], list(one_gpu_rows(results)))


def tables(results, torch_rows):
    """By name; `results` are by the file's name."""
    shapes = measured(results, torch_rows)
    more = [*eight_gpus(results, torch_rows), *(pooled_row(results, *one) for one in POOLED)]
    return {"measured": table(HEADS, shapes),
            "all_shapes": table(HEADS, shapes + more),
            "power": table(["GPUs", "rows with M >= 4096", "over the baseline", "over AsyncTP"],
                           list(limit_rows(results))),
            "one_gpu": one_gpu_table(results)}


def with_tables(page, written):
    """The page with what stands between its comments written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{written[block[2]]}\n\n{block[4]}", page)
