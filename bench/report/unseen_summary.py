#!/usr/bin/env python3
"""Regret on shapes that nothing was tuned on, from what `bench/on_gpus.sh FOLDER --steps unseen` leaves there.

    bench/report/unseen_summary.py FOLDER

For each shape of bench/shapes/unseen.txt: the best of a sweep (unseen_tuning.json), `auto` by itself (unseen.json), and
PyTorch's paths beside an operation that measured nothing (unseen_torch.json) and one that could measure when it was
made (unseen_torch_measured.json). Times of one session are compared with each other only. Bars: against the sweep a
median of 2 % and a worst of 8 %; against the library and PyTorch's fused operators never under 1.00; efficiency, the
floor over what was measured, of 16 rows and more that are few.
"""

import json
import math
import pathlib
import statistics
import sys

LEAST_ROWS, FEW_ROWS = 16, 2048
MEDIAN, WORST = 0.02, 0.08
EFFICIENCY = {"ag-gemm": 0.90, "gemm-rs": 0.80, "gemm-ar": 0.80}


def rows_of(path, key):
    """Rows by operator; nothing where the step did not run."""
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {row["operator"]: row for row in content[key]}


def group_of(operator):
    kind, *words = operator.split()
    rows = int(dict(word.split("=", 1) for word in words)["m"])
    return f"{kind} M {'>=' if rows >= FEW_ROWS else '<'} {FEW_ROWS}"


def regrets(tuned, benched):
    """How much longer `auto` took than the best of the sweep, by operator: both over the library of their session."""
    found = {}
    for operator, row in benched.items():
        chosen = next((one for one in row["strategies"]
                       if one["strategy"] == "auto" and "time_us" in one), None)
        sweep = tuned.get(operator)
        if chosen is None or sweep is None:
            continue
        best = min(one["time_us"] for one in sweep["measured"]) / sweep["library_us"]
        found[operator] = chosen["time_us"] / row["sequential_us"] / best - 1
    return found


def efficiencies(benched):
    """The floor over the time of what `auto` took, by kind of operator, from LEAST_ROWS to FEW_ROWS."""
    found = {}
    for operator, row in benched.items():
        kind, *words = operator.split()
        rows = int(dict(word.split("=", 1) for word in words)["m"])
        us = next((one["time_us"] for one in row["strategies"] if one["strategy"] == "auto" and "time_us" in one), None)
        if us and LEAST_ROWS <= rows < FEW_ROWS:
            found.setdefault(kind, []).append(row["floor_us"] / us)
    return dict(sorted(found.items()))


def ratios(rows, of):
    """Another's time over Stretto's, by operator."""
    return {operator: row[of] / row["stretto_us"] for operator, row in rows.items()
            if row.get(of) and row.get("stretto_us")}


def by_group(values):
    groups = {}
    for operator, value in values.items():
        groups.setdefault(group_of(operator), []).append(value)
    return dict(sorted(groups.items()))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def lines_of(folder):
    tuned = rows_of(folder / "unseen_tuning.json", "operators")
    benched = rows_of(folder / "unseen.json", "rows")
    plain = rows_of(folder / "unseen_torch.json", "rows")
    measured = rows_of(folder / "unseen_torch_measured.json", "rows")
    yield "| regret of auto against the sweep | n | median | worst | inside the bars |"
    yield "|---|---|---|---|---|"
    for group, values in by_group(regrets(tuned, benched)).items():
        good = statistics.median(values) <= MEDIAN and max(values) <= WORST
        yield (f"| {group} | {len(values)} | {100 * statistics.median(values):.1f} % | "
               f"{100 * max(values):.1f} % | {'yes' if good else 'no'} |")
    yield ""
    yield "| auto beside PyTorch | n | x sequence (worst) | measured at creation | x fused (worst) | measured at creation |"
    yield "|---|---|---|---|---|---|"
    columns = [by_group(ratios(rows, of)) for of in ("sequential_us", "fused_us") for rows in (plain, measured)]
    for group in sorted(set().union(*columns)):
        cells = [f"{mean(one[group]):.2f} ({min(one[group]):.2f})" if group in one else "-" for one in columns]
        count = max(len(one.get(group, [])) for one in columns)
        yield f"| {group} | {count} | {' | '.join(cells)} |"
    yield ""
    yield f"| M from {LEAST_ROWS} to {FEW_ROWS - 1} | n | efficiency (worst) | bar |"
    yield "|---|---|---|---|"
    for kind, values in efficiencies(benched).items():
        yield f"| {kind} | {len(values)} | {mean(values):.2f} ({min(values):.2f}) | {EFFICIENCY.get(kind, 0):.2f} |"


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit("usage: bench/report/unseen_summary.py FOLDER, which bench/on_gpus.sh FOLDER --steps unseen has filled")
    print("\n".join(lines_of(pathlib.Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
