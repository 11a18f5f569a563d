#!/usr/bin/env python3
"""What holds back few and middle rows: where the time of `auto` goes beyond the floor, row by row.

    bench/report/held_back.py STRETTO RESULTS.json

For each row of LEAST_ROWS to FEW_ROWS whose efficiency is below its operator's bar, of a file of fused operators: what
was measured, and its terms by the simulation (`STRETTO simulate`) of the schedule that was taken. Then, of all such
rows, the efficiency if a term took nothing; and the most that pieces leave: what is sent behind its piece of the
product, or ahead of it, is hidden but for one piece, sums are free, and pieces take no more than their part of cuBLAS's
time.

- product: what its product takes alone, less the last wave, and less what cuBLAS was measured to take;
- last wave: of tiles, what SMs rest while the last ones are multiplied;
- start, crossing, sum: what stands beyond the product: what would go if nothing took time to start and to be told of;
  then if links took none either; and what is left, which is adding up, storing and waiting for own memory;
- not simulated: what was measured beyond all these.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.report.summary import geometric_mean, table  # noqa: E402
from bench.report.unseen_summary import EFFICIENCY, FEW_ROWS, LEAST_ROWS  # noqa: E402

STARTS = ("launch_us", "chained_launch_us", "signal_us", "local_signal_us", "release_us", "copy_launch_us",
          "nccl_launch_us")
LINKS = ("link_gb_per_s", "push_by_blocks", "push_all_by_blocks", "push_multi_by_blocks", "copy_engine_by_bytes",
         "copy_engine_all_gb_per_s", "epilogue_push_gb_per_s", "nccl_by_bytes")
NOTHING, ENDLESS = 1e-3, 1e3
PIECES = (1, 2, 4, 16)
START_US, HOP_US = 1.3, 1.0  # of a kernel that starts while another ends; of a word over a link and its wait
HOPS = {"gemm-ar": 2}  # others: 1
TERMS = ("product", "last wave", "start", "crossing", "sum", "not simulated")


def times(figure, factor):
    scaled = {"points": [[x, y * factor] for x, y in figure["points"]]} if "points" in figure else {
        "value": figure["value"] * factor}
    return {**figure, **scaled, "source": "what if"}


def figures_of(machine):
    """A machine file's figures, with those of the one that it is based on."""
    content = json.loads((ROOT / "machines" / f"{machine}.json").read_text(encoding="utf-8"))
    return {**(figures_of(content["base"]) if "base" in content else {}), **content["figures"]}


def without(machine, starts, links):
    """A machine file's content on which these take next to no time."""
    figures = figures_of(machine)
    changed = {name: times(figures[name], NOTHING) for name in starts}
    changed |= {name: times(figures[name], ENDLESS) for name in links}
    return {"name": "what-if", "base": machine, "description": "What if", "nodes": 1, "figures": changed}


class Simulation:
    def __init__(self, stretto, machine, folder):
        self.stretto = stretto
        self.machines = [machine]
        for name, links in (("no-start", ()), ("no-link", LINKS)):
            path = pathlib.Path(folder) / f"{name}.json"
            path.write_text(json.dumps(without(machine, STARTS, links)), encoding="utf-8")
            self.machines.append(str(path))

    def run(self, operator, schedule, machine):
        """Its whole time and that of its product alone."""
        words = [word for word in operator.split() if not word.startswith(("ranks=", "dtype="))]
        sizes = dict(word.split("=", 1) for word in operator.split()[1:])
        done = subprocess.run([self.stretto, "simulate", *words, "--ranks", sizes["ranks"], "--dtype", sizes["dtype"],
                               "--strategy", schedule, "--machine", machine, "--json"],
                              check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)["results"][0]["simulate"]
        return found["total_us"], found["compute_us"]

    def terms(self, row, ran, sms):
        runs = [self.run(row["operator"], ran["schedule"], machine) for machine in self.machines]
        exposed = [total - product for total, product in runs]
        total, product = runs[0]
        last = product * idle_share(row["operator"], ran["schedule"], sms)
        return {"product": product - last - row["gemm_us"], "last wave": last, "start": exposed[0] - exposed[1],
                "crossing": exposed[1] - exposed[2], "sum": exposed[2], "not simulated": ran["time_us"] - total}


def idle_share(operator, schedule, sms):
    """Of our tiles' time, the share in which SMs that movers leave have none; a library's tiles are its own affair."""
    tile, movers = re.search(r"\btile=(\d+)x(\d+)", schedule), re.search(r"\bcomm-sms=(\d+)", schedule)
    if "gemm=" in schedule or not tile:
        return 0
    sms -= int(movers[1]) if movers else 0
    sizes = dict(word.split("=", 1) for word in operator.split()[1:])
    columns = int(sizes["n"]) // (int(sizes["ranks"]) if operator.startswith("ag-gemm") else 1)
    tiles = -(-int(sizes["m"]) // int(tile[1])) * -(-columns // int(tile[2]))
    return 1 - tiles / (-(-tiles // sms) * sms)


def middle_rows(result):
    """(kind, M, row, what `auto` ran) of those that bars of efficiency are for."""
    for row in result["rows"]:
        kind, *words = row["operator"].split()
        m = int(dict(word.split("=", 1) for word in words)["m"])
        ran = next((one for one in row["strategies"] if one["strategy"] == "auto" and "time_us" in one), None)
        if ran and LEAST_ROWS <= m < FEW_ROWS and kind in EFFICIENCY:
            yield kind, m, row, ran


def row_text(kind, row, ran, terms):
    sizes = " ".join(re.findall(r"\b[mnk]=(\d+)", row["operator"]))
    return [f"{kind} {sizes}", f"`{ran['short']}`", f"{ran['time_us']:.1f}", f"{row['gemm_us']:.1f}",
            f"{row['link_floor_us']:.1f}", f"{row['floor_us'] / ran['time_us']:.2f}",
            *(f"{terms[term]:.1f}" for term in TERMS), max(TERMS, key=terms.get)]


def without_terms(kind, rows):
    """Efficiency as it is, and if each term took nothing, though no row less than its floor."""
    def efficiency(term):
        return geometric_mean(row["floor_us"] / max(row["floor_us"], ran["time_us"] - max(0, terms.get(term, 0)))
                              for row, ran, terms in rows)

    return [kind, str(len(rows)), *(f"{efficiency(term):.2f}" for term in ("", *TERMS)), f"{EFFICIENCY[kind]:.2f}"]


def most_of_pieces(kind, rows):
    """Efficiency as it is, and the most in so many pieces."""
    def most(row, pieces):
        product, link = row["gemm_us"], row["link_floor_us"]
        us = max(product, link) + min(product, link) / pieces + START_US + HOP_US * HOPS.get(kind, 1)
        return row["floor_us"] / us

    return [kind, f"{geometric_mean(row['floor_us'] / ran['time_us'] for row, ran, _ in rows):.2f}",
            *(f"{geometric_mean(most(row, pieces) for row, _, _ in rows):.2f}" for pieces in PIECES),
            f"{EFFICIENCY[kind]:.2f}"]


def lines_of(result, stretto):
    body, by_kind = [], {}
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation(stretto, result["plans_for"], folder)
        for kind, _, row, ran in sorted(middle_rows(result), key=lambda one: one[:2]):
            terms = simulation.terms(row, ran, result["sms"])
            by_kind.setdefault(kind, []).append((row, ran, terms))
            if row["floor_us"] / ran["time_us"] < EFFICIENCY[kind]:
                body.append(row_text(kind, row, ran, terms))
    return "\n\n".join([
        table(["operator M N K", "takes", "us", "cuBLAS", "link", "efficiency", *TERMS, "most"], body),
        table(["operator", "n", "efficiency", *(f"no {term}" for term in TERMS[:-1]), "all simulated", "bar"],
              [without_terms(kind, rows) for kind, rows in by_kind.items()]),
        table(["operator", "efficiency", *(f"{count} pieces" if count > 1 else "1 piece" for count in PIECES), "bar"],
              [most_of_pieces(kind, rows) for kind, rows in by_kind.items()])])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bench/report/held_back.py STRETTO RESULTS.json")
    print(lines_of(json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")), sys.argv[1]))


if __name__ == "__main__":
    main()
