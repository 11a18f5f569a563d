"""The part of docs/performance on kernels of the device language; pages.py puts it there."""

from bench.report.summary import table


def best_variant(row, names):
    """The fastest of a row's kernels and numbers of blocks, as (name, times)."""
    return min(((name, variant) for name in names for variant in row.get(name, [])),
               key=lambda found: found[1]["median_us"])


def spread_cells(times):
    return [f"{times['median_us']:.1f}", f"{times['p99_us']:.1f}", f"{times['isolated_us']:.1f}",
            f"{times['isolated_p99_us']:.1f}"]


def all_reduce_table(result, torch_rows):
    body = []
    for row in result["all_reduce"]:
        name, best = best_variant(row, ("one_shot", "two_shot"))
        other = torch_rows.get(row["bytes"], {})
        torch_cells = [f"{other[key]:.1f}" if key in other else "-"
                       for key in ("one_shot", "two_shot")]
        rival = min([row["nccl"]["median_us"]] +
                    [other[key] for key in ("one_shot", "two_shot") if key in other])
        body.append([f"{row['bytes'] // 1024}", f"{row['nccl']['median_us']:.1f}", *torch_cells,
                     *spread_cells(best), f"{name.replace('_', '-')} x {best['blocks']}",
                     f"{rival / best['median_us']:.2f}"])
    return table(["KB", "NCCL", "PyTorch one-shot", "PyTorch two-shot", "Stretto", "p99",
                  "isolated", "isolated p99", "kernel x blocks", "x the best other"], body)


def gather_scatter_table(result):
    body = []
    for row in result["parts"]:
        cells = [f"{row['part_bytes'] // 1024}"]
        for name in ("all_gather", "reduce_scatter"):
            nccl = row["nccl_" + name]["median_us"]
            _, best = best_variant(row, (name,))
            cells += [f"{nccl:.1f}", *spread_cells(best),
                      f"{best['blocks']} / {best['in_flight']}",
                      f"{nccl / best['median_us']:.2f}"]
        body.append(cells)
    columns = ["p99", "isolated", "isolated p99", "blocks / in flight", "ratio"]
    return table(["KB a part", "NCCL all-gather", "Stretto", *columns, "NCCL reduce-scatter",
                  "Stretto", *columns], body)


def norm_table(result):
    body = []
    for row in result["all_reduce_norm"]:
        name, best = best_variant(row, ("one_shot", "two_shot", "own_rows", "chunks"))
        body.append([f"{row['hidden']}", f"{row['tokens']}",
                     f"{row['nccl_norm']['median_us']:.1f}", *spread_cells(best),
                     f"{name.replace('_', '-')} x {best['blocks']}",
                     f"{row['nccl_norm']['median_us'] / best['median_us']:.2f}"])
    return table(["columns", "tokens", "NCCL, then norm", "Stretto", "p99", "isolated",
                  "isolated p99", "kernel x blocks", "ratio"], body)


def experts_table(result):
    fastest = {}
    for row in result["experts"]:
        key = (row["tokens"], not row["fp8"])
        if key not in fastest or row["both"]["median_us"] < fastest[key]["both"]["median_us"]:
            fastest[key] = row
    body = []
    for _, row in sorted(fastest.items()):
        cells = []
        for part in ("dispatch", "combine"):
            rate = row[part + "_bytes"] / row[part]["median_us"] / 1000
            cells += [f"{row[part]['median_us']:.1f}", f"{row[part]['p99_us']:.1f}",
                      f"{row[part]['isolated_us']:.1f}", f"{rate:.0f}"]
        body.append([f"{row['tokens']}", "fp8" if row["fp8"] else "bf16", *cells,
                     f"{row['blocks']}"])
    return table(["tokens a rank", "sent as", "dispatch", "p99", "isolated", "GB/s", "combine",
                  "p99", "isolated", "GB/s", "blocks"], body)


def sync_table(result):
    body = [[row["barrier"].replace("_", "\\_"), f"{row['blocks']}", *spread_cells(row),
             f"{row['each_us']:.2f}"] for row in result["sync"]]
    return table(["barrier", "blocks", "one a call", "p99", "isolated", "isolated p99",
                  "each further one"], body)


def movers_table(result):
    body = []
    for row in result["movers"]:
        cells = [f"{row['shard_bytes'] // 1024}", f"{row['nccl_all_gather']['median_us']:.1f}"]
        for mover in ("push_gather", "slot_reduce"):
            best = min(row[mover], key=lambda variant: variant["median_us"])
            cells += [f"{best['median_us']:.1f}", f"{best['isolated_us']:.1f}",
                      f"{best['blocks']}"]
        body.append(cells)
    return table(["KB a shard", "NCCL all-gather", "push-gather", "isolated", "blocks",
                  "slot-reduce", "isolated", "blocks"], body)


def language_section(source, result, torch_rows):
    parts = [f"## {result.get('of', 'Kernels of the device language')}, {result['ranks']} x {result['machine']}",
             f"Source: `{source}` at commit {result['commit']}, {result['date']}; "
             f"{result['data']}. Captured graphs: calls back to back (median and 99th percentile "
             "of the slowest rank), and one call from rest (*isolated*)."]
    if "all_reduce" in result:
        parts += ["### All-reduce", all_reduce_table(result, torch_rows)]
    if "parts" in result:
        parts += ["### All-gather and reduce-scatter in one hop", gather_scatter_table(result)]
    if "all_reduce_norm" in result:
        parts += ["### All-reduce + residual + RMSNorm", norm_table(result)]
    if "experts" in result:
        parts += ["### Dispatch and combine: hidden 7168, top 8 of 256 experts",
                  "GB/s counts the bytes that leave a GPU.", experts_table(result)]
    if "sync" in result:
        parts += ["### Barriers", sync_table(result)]
    if "movers" in result:
        parts += ["### Movers", movers_table(result)]
    return "\n\n".join(parts)


def torch_all_reduces(results):
    """(machine, ranks) -> bytes -> a row of a `torch all-reduce` file."""
    return {(result["machine"], result["ranks"]): {row["bytes"]: row for row in result["rows"]}
            for _, result in results if result["benchmark"] == "torch all-reduce"}
