#!/usr/bin/env python3
"""What layers of experts could take at best, what they take, and where the time goes.

    bench/report/expert_bars.py FILE...     results of bench/contests/layers.py

A row's floors are of one rank: its products at the best rates that bench/results/grouped_*, expert_cuts_ and
expert_tall*_h200_x1.json have (weights of experts that some token chooses, or multiplications at the rate of as many
rows an expert or fewer), sums of choices as reads and writes of memory, and bytes that leave a GPU at the rate of copy
engines. *Floor*: the longer of products and link, all else hidden. *In turn*: all of these one behind the other,
without a launch between. A bar that the library's time over the floor does not reach is out of reach by arithmetic; one
that it reaches over the floor but not in turn needs communication that is hidden. *Lost*: what Stretto takes beyond *in turn*. Rows that were measured with
--kernels have a table of what kernels of each contestant take.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.report.sections.layers import kind_of, ours, rivals, sizes_of  # noqa: E402
from bench.report.summary import geometric_mean, table  # noqa: E402

RESULTS = ROOT / "bench" / "results"
BARS = {"moe-tp": 1.25, "moe-tp-up": 1.15, "moe-tp-down": 1.35, "moe-ep": 1.15}  # over the fastest library
LINK_GB_PER_S = 390  # copy engines between two H200s, machines/h200x8.json
BYTES = 2  # of an element
MOST_KERNELS = 10


def best_us(row):
    """Of the tile that the kernel took; of the fastest where all that could be were timed."""
    if "tile" in row:
        return row["us"][row["tile"]][0]
    return min(us[0] for name, us in row["us"].items() if name[0].isdigit() and "gathered" not in name)


class Rates:
    """The best that the kernel of experts was measured at: bytes a microsecond, and multiplications by rows."""

    def __init__(self, results):
        self.bytes, self.by_rows = 0, []
        for result in results:
            for row in result["rows"]:
                us, rows, n, k = best_us(row), row["rows"], row["n"], row["k"]
                self.bytes = max(self.bytes, BYTES * (row["active"] * n * k + rows * (n + k)) / us)
                self.by_rows.append((rows / row["active"], 2 * rows * n * k / us))

    def flops(self, rows):
        """Of experts of so many rows."""
        few = min(count for count, _ in self.by_rows)
        return max(rate for count, rate in self.by_rows if count <= max(few, rows * 1.05))


def measured_rates():
    paths = sorted([*RESULTS.glob("grouped_*h200_x1.json"), *RESULTS.glob("expert_tall*_h200_x1.json"),
                    RESULTS / "expert_cuts_h200_x1.json"])
    return Rates([json.loads(path.read_text(encoding="utf-8")) for path in paths])


def numbers(row):
    words = dict(word.split("=") for word in row["operator"].split()[1:])
    return {name: int(words[name]) for name in ("t", "h", "f", "experts", "k", "ranks")}


def floors(row, rates, link_bytes=None):
    """(products, sums, link) in microseconds, of one rank; `link_bytes` where the row does not say them."""
    of, kind = numbers(row), kind_of(row)
    chosen = of["experts"] * (1 - (1 - of["k"] / of["experts"]) ** of["t"])
    rows, inner = of["t"] * of["k"], of["f"]
    if kind == "moe-ep":
        chosen, rows = chosen / of["ranks"], rows / of["ranks"]
    else:
        inner /= of["ranks"]
    shapes = {"up": (2 * inner, of["h"]), "down": (of["h"], inner)}
    if kind.endswith("-up"):
        del shapes["down"]
    if kind.endswith("-down"):
        del shapes["up"]
    products = 0
    for what, (n, k) in shapes.items():
        stored = n / 2 if what == "up" else n
        moved = BYTES * (chosen * n * k + rows * (k + stored))
        products += max(moved / rates.bytes, 2 * rows * n * k / rates.flops(rows / chosen))
    sums = 0 if kind.endswith("-up") else BYTES * (rows + of["t"]) * of["h"] / rates.bytes
    return products, sums, (row["link_bytes"] if link_bytes is None else link_bytes) / LINK_GB_PER_S / 1e3


def is_of_experts(row):
    return kind_of(row) in BARS and "us" in row and "routing=" not in row["operator"]  # floors are of uniform routing


def cells(row, rates):
    products, sums, link = floors(row, rates)
    floor, in_turn = max(products, link), products + sums + link
    library, took, bar = (rivals(row) or [(None, "")])[0][0], (ours(row) or [None])[0], BARS[kind_of(row)]
    most = library / floor if library else None
    reach = "-" if most is None else "no" if most < bar else "hidden" if library / in_turn < bar else "yes"
    return [f"{kind_of(row)} {sizes_of(row)}", *(f"{one:.0f}" for one in (products, sums, link, floor, in_turn)),
            f"{library:.0f}" if library else "-", f"{most:.2f}" if most else "-", reach,
            f"{took:.0f}" if took else "failed", f"{library / took:.2f}" if library and took else "-",
            f"{took - in_turn:.0f}" if took else "-"]


def bars_table(rows, rates):
    """Of rows of layers of experts."""
    return table(["layer", "products", "sums", "link", "floor", "in turn", "library", "library / floor", "bar in reach",
                  "Stretto", "x library", "lost"], [cells(row, rates) for row in rows])


def kernels_table(row):
    body = [[label, name, f"{us:.1f}", f"{count:g}"] for label, kernels in row["kernels"].items()
            for name, us, count in kernels[:MOST_KERNELS]]
    return f"{kind_of(row)} {sizes_of(row)}\n\n" + table(["contestant", "kernel", "us", "launches"], body)


def report(result, rates):
    rows = [row for row in result["rows"] if is_of_experts(row)]
    if not rows:
        return "no layers of experts"
    parts = []
    for kind in dict.fromkeys(map(kind_of, rows)):
        ratios = [rivals(row)[0][0] / ours(row)[0] for row in rows
                  if kind_of(row) == kind and rivals(row) and ours(row)]
        if ratios:
            parts.append(f"{kind}: {geometric_mean(ratios):.2f} over the fastest library, worst {min(ratios):.2f}, bar "
                         f"{BARS[kind]:.2f}, {len(ratios)} rows")
    parts.append(bars_table(rows, rates))
    parts += [kernels_table(row) for row in result["rows"] if row.get("kernels")]
    return "\n\n".join(parts)


def bars_section(result, rates):
    """For docs/performance/layers.md; nothing where a result has no such layers."""
    rows = [row for row in result["rows"] if is_of_experts(row)]
    if not rows:
        return []
    return ["### Bars in reach\n\nMicroseconds of one rank by arithmetic: products at the best rates that "
            f"`grouped_*_h200_x1.json` and `expert_*` have ({rates.bytes / 1e6:.2f} TB/s; TFLOP/s by rows of an expert), sums of "
            f"choices, bytes that leave a GPU at {LINK_GB_PER_S} GB/s. *Floor*: the longer of products and link; *in "
            "turn*: all of them, without a launch between. *Bar in reach*: no, where the library's time over the floor is below the bar; "
            "hidden, where only communication that is hidden reaches it. *Lost*: what Stretto takes beyond *in turn*.",
            bars_table(rows, rates)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    rates = measured_rates()
    for path in parser.parse_args().files:
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            sys.exit(f"{path}: {error}")
        print(f"{path.name}: {result['ranks']} x {result['machine']}, commit {result['commit']}\n\n"
              f"{report(result, rates)}\n")


if __name__ == "__main__":
    main()
