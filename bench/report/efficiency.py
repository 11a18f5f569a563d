"""docs/performance/efficiency.md: what each layer could take at best, what it takes, and which bars that meets.

A row is the last run that has it. Floors of layers of experts are arithmetic on a GPU's round rates, the same for
everybody's kernels; those of other layers are their products alone, as measured in the same run, or their link.
"""

import collections

from bench.report.expert_bars import BARS as EXPERTS, BYTES, LINK_GB_PER_S, floors, measured_rates, numbers
from bench.report.history import age
from bench.report.sections.graphs import chosen, is_of_graphs
from bench.report.sections.layers import LINK_GB_PER_S as PLAIN_LINK_GB_PER_S
from bench.report.sections.layers import MOVED, PRODUCTS, kind_of, ours, sizes_of
from bench.report.summary import BARS as FUSED, mean_and_worst, table
from bench.shapes.moe_layers import MODELS

# Round rates of an H200, by which bars of layers of experts are stated.
TFLOPS, MEMORY_TB_PER_S, LINK_BY_RANKS = 770, 4.1, {2: 380, 4: 340, 8: 320}
LARGER = ("qwen235b", "mixtral")  # of the models whose layers libraries were timed on
ALL_TO_ALLS = ("gemm-a2a", "a2a-gemm")
HEADING = "## Efficiency of layers, {} x {}"
ABOUT = ("A row is the last run that has it: *run* is its file in `bench/results`. *Efficiency* is the floor over what "
         "Stretto takes, microseconds of one rank; in brackets its worst row.")
ABOUT_EXPERTS = (
    f"Floors of experts: the longest of *multiplying* at {TFLOPS} TFLOP/s, *memory* at {MEMORY_TB_PER_S} TB/s (weights of "
    "experts that some token chooses, tokens once, activations; no row of a choice where it is added up) and *link* at "
    + ", ".join(f"{rate} GB/s on {ranks} ranks" for ranks, rate in LINK_BY_RANKS.items())
    + f": a token once to each rank that needs it, a sum once to its owner. {MEMORY_TB_PER_S} TB/s are a convention, not the "
    "most that memory gives: the kernel of experts reads weights of few rows faster, so *by kernels* and efficiencies come "
    "out above 1 there. *By kernels* puts in the place of these what the kernel "
    "of experts was measured at its best, alone and with as many rows an expert, and *in turn* adds sums of choices and the "
    f"link at {LINK_GB_PER_S} GB/s behind it, without a launch between; both as efficiencies. So a bar above *by kernels* "
    "needs a faster kernel, one above *in turn* sums or communication that are hidden. Bars: 0.80 for `moe-tp-up` and, from "
    "2048 tokens on and for the two larger models that libraries were timed on, 0.75 for `moe-tp-down`, each with the "
    "columns that a rank of so many has; 0.75 for `moe-ep` from 1024 tokens a rank on, of which each has an eighth of the "
    "experts.")
ABOUT_OTHERS = (f"Floors of others: the longer of *products* alone, cuBLAS in the same run, and of the bytes that leave a "
                f"GPU at {LINK_GB_PER_S} GB/s, the best measured; above 1 where Stretto's products are faster than "
                "cuBLAS's. The bar is 0.85 for all-to-alls of 4096 rows and more.")

Found = collections.namedtuple("Found", "row us products link_bytes file")


def measured(path, result):
    """Rows of layers that somebody timed, by (machine, ranks, operator)."""
    for row in result["rows"]:
        if kind_of(row) in FUSED or "routing=" in row["operator"]:  # floors are of uniform routing
            continue
        key = (result["machine"], result["ranks"], row["operator"].removesuffix(" dtype=bf16"))
        if result["benchmark"] == "layers" and "us" in row and ours(row):
            products = row["us"].get(PRODUCTS, [None])[0]
            yield key, Found(row, ours(row)[0], products, row["link_bytes"], path.name)
        elif is_of_graphs(result) and chosen(row) and "link_floor_us" in row:
            link = row["link_floor_us"] * PLAIN_LINK_GB_PER_S * 1e3
            yield key, Found(row, chosen(row)[0], row.get("gemm_us"), link, path.name)


def newest(results):
    found = {}
    for path, result in sorted(results, key=lambda one: age(*one)):
        if result["benchmark"] == "layers" or is_of_graphs(result):
            found.update(measured(path, result))
    return found


def link_rate(ranks):
    return LINK_BY_RANKS[max(count for count in LINK_BY_RANKS if count <= max(ranks, 2))]


def expert_floors(row):
    """(multiplying, memory, link) in microseconds, of one rank."""
    of, kind = numbers(row), kind_of(row)
    ranks, t, h = of["ranks"], of["t"], of["h"]
    is_dealt = kind == "moe-ep"
    parts, inner = (ranks, of["f"]) if is_dealt else (1, of["f"] / ranks)
    rows, chosen_experts = t * of["k"] / parts, of["experts"] / parts * (1 - (1 - of["k"] / of["experts"]) ** t)
    up, down = not kind.endswith("-down"), not kind.endswith("-up")
    weights = h * inner * (2 * up + down)
    memory = chosen_experts * weights + rows * inner * (up + down)
    memory += 2 * rows * h if is_dealt else t * h * (up + down)
    apart = 1 - (1 - 1 / ranks) ** of["k"] if is_dealt else 1
    moved = (ranks - 1) * apart * t / ranks * h * (up + down)
    return (2 * rows * weights / TFLOPS / 1e6, BYTES * memory / MEMORY_TB_PER_S / 1e6,
            BYTES * moved / link_rate(ranks) / 1e3)


def load_of(row):
    """(model, "whole" or "eighth"), of what a rank has as on so many ranks or as on eight; None of other sizes."""
    of, is_dealt = numbers(row), kind_of(row) == "moe-ep"
    for model, (h, f, experts, k) in MODELS.items():
        if (of["h"], of["k"]) != (h, k):
            continue
        if (of["f"], of["experts"]) == (f, experts):
            return model, "whole"
        if (of["f"], of["experts"]) == ((f, experts * of["ranks"] // 8) if is_dealt
                                        else (f * of["ranks"] // 8, experts)):
            return model, "eighth"
    return None


def bar_of(row):
    """None where a row has none."""
    kind = kind_of(row)
    if kind in ALL_TO_ALLS:
        return 0.85 if int(sizes_of(row).split()[0].removeprefix("m=")) >= 4096 else None
    if kind not in EXPERTS or not load_of(row):
        return None
    of, (model, load) = numbers(row), load_of(row)
    if kind == "moe-ep":
        return 0.75 if load == "eighth" and of["t"] >= 1024 * of["ranks"] else None
    if load != "whole":
        return None
    if kind == "moe-tp-up":
        return 0.80
    return 0.75 if kind == "moe-tp-down" and model in LARGER and of["t"] >= 2048 else None


def floor_of(found):
    if kind_of(found.row) in EXPERTS:
        return max(expert_floors(found.row))
    link = found.link_bytes / LINK_GB_PER_S / 1e3
    if kind_of(found.row) in MOVED:
        return link
    return max(found.products, link) if found.products else None


def verdict(found):
    """[floor, Stretto, efficiency, bar, met, run]"""
    floor, bar = floor_of(found), bar_of(found.row)
    share = floor / found.us
    return [f"{floor:.0f}", f"{found.us:.0f}", f"{share:.2f}", f"{bar:.2f}" if bar else "-",
            ("yes" if share >= bar else "no") if bar else "-", f"`{found.file.removesuffix('.json')}`"]


def experts_table(group, rates):
    body = []
    for found in group:
        products, sums, link = floors(found.row, rates, found.link_bytes)
        floor, load = floor_of(found), load_of(found.row)
        body.append([sizes_of(found.row), " ".join(load) if load else "-",
                     *(f"{us:.0f}" for us in expert_floors(found.row)), f"{floor / max(products, link):.2f}",
                     f"{floor / (products + sums + link):.2f}", *verdict(found)])
    return table(["sizes", "model, of it", "multiplying", "memory", "link", "by kernels", "in turn", "floor", "Stretto",
                  "efficiency", "bar", "met", "run"], body)


def others_table(group):
    body = [[sizes_of(found.row), f"{found.products:.0f}" if found.products else "-",
             f"{found.link_bytes / LINK_GB_PER_S / 1e3:.0f}", *verdict(found)] for found in group]
    return table(["sizes", "products", "link", "floor", "Stretto", "efficiency", "bar", "met", "run"], body)


def summary_row(kind, group):
    def shares(rows):
        return [floor_of(found) / found.us for found in rows]
    barred = [found for found in group if bar_of(found.row)]
    met = sum(floor_of(found) / found.us >= bar_of(found.row) for found in barred)
    return [f"`{kind}`", f"{len(group)}", mean_and_worst(shares(group)),
            f"{bar_of(barred[0].row):.2f}" if barred else "-", f"{met} of {len(barred)}" if barred else "-",
            mean_and_worst(shares(barred))]


def order_of(found):
    words = [word.split("=") for word in sizes_of(found.row).split()]
    return [*(int(value) for _, value in words[1:]), int(words[0][1])]


def efficiency_section(groups, ranks, machine, rates):
    """Of rows by their operator."""
    parts = [HEADING.format(ranks, machine), ABOUT,
             table(["operator", "rows", "efficiency", "bar", "met", "efficiency of rows with a bar"],
                   [summary_row(kind, group) for kind, group in groups.items()])]
    experts = {kind: group for kind, group in groups.items() if kind in EXPERTS}
    others = {kind: group for kind, group in groups.items() if kind not in EXPERTS}
    for about, of_kind, tabled in ((ABOUT_EXPERTS, experts, lambda group: experts_table(group, rates)),
                                   (ABOUT_OTHERS, others, others_table)):
        if of_kind:
            parts.append(about)
        for kind, group in of_kind.items():
            parts += [f"### {kind}", tabled(group)]
    return "\n\n".join(parts)


def efficiency_sections(results, rates=None):
    """One for each machine and number of ranks, those with most rows first."""
    by_ranks = collections.defaultdict(lambda: collections.defaultdict(list))
    for (machine, ranks, _), found in newest(results).items():
        if floor_of(found):
            by_ranks[machine, ranks][kind_of(found.row)].append(found)
    rates, texts = rates or measured_rates(), []
    for (machine, ranks), groups in sorted(by_ranks.items(), key=lambda one: -sum(map(len, one[1].values()))):
        ordered = {kind: sorted(groups[kind], key=order_of)
                   for kind in sorted(groups, key=lambda kind: (kind not in EXPERTS, kind))}
        texts.append(efficiency_section(ordered, ranks, machine, rates))
    return texts
