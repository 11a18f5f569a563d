"""The part of docs/performance on products of experts; pages.py puts it there."""

from bench.report.summary import heading_of, geometric_mean, table

PRODUCTS = {"up": "gate, up", "down": "down"}


def times_of(row):
    """Of our tile, of torch, and of the faster of DeepGEMM's forms."""
    us = {name: times[0] for name, times in row["us"].items()}
    deep_gemm = [time for name, time in us.items() if name.startswith("deepgemm")]
    return us[row["tile"]], us["torch"], min(deep_gemm, default=None)


def summary_of(rows):
    words = []
    for name, which in (("torch._grouped_mm", 1), ("DeepGEMM", 2)):
        ratios = [times_of(row)[which] / times_of(row)[0] for row in rows if times_of(row)[which]]
        if ratios:
            words.append(f"{geometric_mean(ratios):.2f} beside {name} (worst row {min(ratios):.2f})")
    return " and ".join(words)


def grouped_section(source, result):
    rows = result["rows"]
    body = []
    for row in rows:
        ours, torch, deep_gemm = times_of(row)
        flops = 2 * row["rows"] * row["n"] * row["k"]
        moved = 2 * (row["active"] * row["n"] * row["k"] + row["rows"] * (row["n"] + row["k"]))
        body.append([row["model"], PRODUCTS[row["product"]], f"{row['tokens']}", f"{row['rows'] / row['active']:.0f}",
                     row["tile"], f"{ours:.1f}", f"{flops / ours / 1e6:.0f}", f"{moved / ours / 1e6:.2f}",
                     f"{row['padding']['16'] - 1:.1%}", f"{torch / ours:.2f}",
                     f"{deep_gemm / ours:.2f}" if deep_gemm else "-"])
    few = [row for row in rows if row["tokens"] < 4096]
    many = [row for row in rows if row["tokens"] >= 4096]
    parts = [f"{words} {summary_of(part)}" for words, part in (("up to 2048 tokens", few), ("from 4096 on", many))
             if part]
    return "\n\n".join([
        f"## Products of experts, {result['machine']}{heading_of(result)}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}; {result['data']}. How many times as fast, "
        f"geometric means: {'; '.join(parts)}. Libraries get sorted rows, as our tile does here. *Padding*: rows "
        "that are multiplied in vain. Large products are bound by power: who comes behind a kernel that only copies "
        "is up to 10 % faster ([notes](../notes/moe-gemm.md)).",
        table(["model", "product", "tokens", "rows an expert", "tile", "us", "TFLOP/s", "TB/s", "padding", "x torch",
               "x DeepGEMM"], body)])


LIBRARIES = ("torch", "deepgemm")


def beside_library(row, library):
    """How many times as fast what was chosen is as the fastest of its forms; None where it took no part."""
    times = [times[0] for name, times in row["us"].items() if name.startswith(library)]
    return min(times) / row["us"][row["chosen"]][0] if times else None


def choice_section(source, result):
    """Of bench/experts/grouped_choice.py: what the kernel takes beside the best of its tiles."""
    body, behind, beside = [], [], {library: [] for library in LIBRARIES}
    for row in result["rows"]:
        us = {name: times[0] for name, times in row["us"].items()}
        ours = {name: time for name, time in us.items()
                if not name.startswith(LIBRARIES) and "gathered" not in name and "early" not in name}
        best, took = min(ours, key=ours.get), us[row["chosen"]]
        behind.append(took / ours[best])
        cells = []
        for name, ratios in beside.items():
            ratio = beside_library(row, name)
            ratios += [] if ratio is None else [ratio]
            cells.append("-" if ratio is None else f"{ratio:.2f}")
        body.append([row["load"], PRODUCTS[row["product"]], f"{row['rows'] / max(1, row['active']):.0f}",
                     row["chosen"].replace(" swiglu", ""), f"{took:.1f}", best.replace(" swiglu", ""),
                     f"{ours[best]:.1f}", *cells])
    words = "; ".join(f"{geometric_mean(ratios):.2f} beside {name} (worst row {min(ratios):.2f})"
                      for name, ratios in (("torch._grouped_mm", beside["torch"]), ("DeepGEMM", beside["deepgemm"]))
                      if ratios)
    return "\n\n".join([
        f"## Tiles of the kernel of experts, {result['machine']}{heading_of(result)}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}; {result['data']}. A rank's part of a "
        f"layer, by `ep8` of its experts and by `tp8` of each one's columns. The tile that is chosen is "
        f"{geometric_mean(behind) - 1:.1%} behind the best in the mean, {max(behind) - 1:.1%} at worst. How many times "
        f"as fast: {words}. Gate and up have SwiGLU in our time, and not in the libraries'.",
        table(["load", "product", "rows an expert", "chosen", "us", "best", "us", "x torch", "x DeepGEMM"], body)])
