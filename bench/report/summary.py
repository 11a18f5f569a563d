#!/usr/bin/env python3
"""The short table over fused results: what they add up to, and whether they reach the project's bars.

    bench/report/summary.py FILE...    results of `stretto bench --json` and of bench/contests/torch_baselines.py

Rows are grouped by operator and by M; "worst" is the least of the rows' ratios. Efficiency is the
floor over the measured time: the larger of the GEMM alone and its bytes at the link's rate.
"""

import argparse
import collections
import json
import math
import pathlib
import sys

Row = collections.namedtuple("Row", "operator m n k ranks gemm nccl sequential floor contestants")
Contestant = collections.namedtuple("Contestant", "name time low high chosen parts predicted")
Bars = collections.namedtuple("Bars", "large small efficiency")

# Speed-ups over the library path that the project sets itself on 8 GPUs, by the size of M.
BARS = {"ag-gemm": Bars(1.40, 1.4, 0.88),
        "gemm-rs": Bars(1.50, 1.4, 0.85),
        "gemm-ar": Bars(1.35, 1.4, 0.80)}
LARGE, VERY_LARGE = 2048, 4096


def heading_of(result):
    """What sets a measurement apart from others of its kind on the same machine, for its heading."""
    return f", {result['of']}" if result.get("of") else ""


def parse_operator(text):
    """"gemm-rs m=1 n=2 k=3 ranks=4 dtype=bf16" -> name, m, n, k, ranks."""
    name, *words = text.split()
    sizes = dict(word.split("=", 1) for word in words)
    return name, int(sizes["m"]), int(sizes["n"]), int(sizes["k"]), int(sizes.get("ranks", 0))


def fused_rows(result):
    """Rows of a `fused` file, each with all its schedules, fastest first; without those that nobody could run."""
    rows = []
    for row in result["rows"]:
        if "sequential_us" not in row or not any("time_us" in one for one in row["strategies"]):
            continue
        contestants = sorted(
            (Contestant(s.get("short", s["strategy"]), s["time_us"], s["low_us"], s["high_us"],
                        s["strategy"] == "auto", s.get("parts"), s.get("predicted_us"))
             for s in row["strategies"] if "time_us" in s),
            key=lambda contestant: contestant.time)
        name, m, n, k, ranks = parse_operator(row["operator"])
        rows.append(Row(name, m, n, k, ranks or result["ranks"], row["gemm_us"], row["nccl_us"],
                        row["sequential_us"], row["floor_us"], contestants))
    return rows


def chosen(row):
    """What a user gets: what `auto` chose where it took part, else the fastest."""
    return next((c for c in row.contestants if c.chosen), row.contestants[0])


def session(result):
    """What times must have in common to be compared: (machine, turn_ms)."""
    return result["machine"], result.get("turn_ms", 0)


def torch_times(results):
    """(machine, turn_ms, operator, m, n, k, ranks) -> a row of a `torch` file."""
    found = {}
    for _, result in results:
        if result.get("benchmark") != "torch":
            continue
        for row in result["rows"]:
            if "fused_us" in row:
                found[(*session(result), *parse_operator(row["operator"]))] = row
    return found


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def mean_and_worst(ratios):
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else "-"


def summary_rows(result, torch_rows):
    rows = fused_rows(result)
    for operator in dict.fromkeys(row.operator for row in rows):
        bars = BARS[operator]
        for large in (True, False):
            group = [row for row in rows if row.operator == operator and (row.m >= LARGE) == large]
            if not group:
                continue
            ratios = [row.sequential / chosen(row).time for row in group]
            others = [other["fused_us"] / chosen(row).time for row in group
                      if (other := torch_rows.get((*session(result), *row[:5])))]
            shares = [row.floor / chosen(row).time for row in group if row.m >= VERY_LARGE]
            yield [operator, f"M {'>=' if large else '<'} {LARGE}", f"{len(group)}",
                   mean_and_worst(ratios), f"{bars.large if large else bars.small:.2f}",
                   f"{geometric_mean(shares):.2f}" if shares else "-", f"{bars.efficiency:.2f}" if large else "-",
                   mean_and_worst(others), f"{sum(ratio < 1 for ratio in others)}" if others else "-"]


def at_a_glance(result, torch_rows):
    """A row an operator of one `fused` result, all sizes in it."""
    rows = fused_rows(result)
    for operator in dict.fromkeys(row.operator for row in rows):
        group = [row for row in rows if row.operator == operator]
        ratios = {size: [row.sequential / chosen(row).time for row in group if (row.m >= LARGE) == size]
                  for size in (True, False)}
        shares = [row.floor / chosen(row).time for row in group if row.m >= VERY_LARGE]
        others = [other["fused_us"] / chosen(row).time for row in group
                  if (other := torch_rows.get((*session(result), *row[:5])))]
        behind = sum(ratio < 1 for ratio in ratios[True] + ratios[False])
        yield [operator, mean_and_worst(ratios[True]), mean_and_worst(ratios[False]),
               f"{geometric_mean(shares):.2f}" if shares else "-", mean_and_worst(others),
               f"{behind} of {len(group)}",
               f"{sum(ratio < 1 for ratio in others)} of {len(others)}" if others else "-"]


def summary(result, torch_rows):
    """The table of one `fused` result."""
    return table(["operator", "rows", "count", "x sequence (worst)", "bar",
                  f"efficiency, M >= {VERY_LARGE}", "bar", "x PyTorch fused (worst)",
                  "rows behind it"], list(summary_rows(result, torch_rows)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    results = []
    for path in parser.parse_args().files:
        try:
            results.append((path, json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError) as error:
            sys.exit(f"{path}: {error}")
    torch_rows = torch_times(results)
    for path, result in results:
        if result.get("benchmark") == "fused":
            print(f"\n{path.name}: {result['ranks']} x {result['machine']}, "
                  f"commit {result['commit']}\n\n{summary(result, torch_rows)}")


if __name__ == "__main__":
    main()
