"""The parts of docs/performance on the fused operators, alone and beside PyTorch; pages.py puts them there."""

import collections
import statistics

from bench.report.summary import chosen, fused_rows, geometric_mean, parse_operator, session, summary, table

PARTS = ("waiting_us", "multiplying_us", "adding_us", "ending_us", "rest_us")


def parts_table(group):
    """Where the time of the fastest schedules goes; nothing where no row knows."""
    body = [[f"{row.m} {row.n} {row.k}", f"{row.gemm:.1f}", f"{row.contestants[0].time:.1f}"]
            + [f"{row.contestants[0].parts[part]:.1f}" for part in PARTS]
            for row in group if row.contestants[0].parts]
    if not body:
        return []
    return ["Where the time of the fastest goes, means over the SMs that multiply, of runs whose kernels note "
            "the time: they wait for other ranks, multiply, add what others sent, and are past their last tile "
            "before the rank is; the rest is first operands, stores and boundaries.",
            table(["M N K", "GEMM", "Stretto", "waiting", "multiplying", "adding", "ending", "rest"],
                  body)]


def prediction_errors(rows):
    """What the simulation that measured beside the GPUs made of them; nothing where no row knows."""
    errors = [(one.predicted / one.time - 1, row, one)
              for row in rows for one in row.contestants if one.predicted]
    if not errors:
        return []
    median = statistics.median(abs(error) for error, _, _ in errors)
    worst, row, one = max(errors, key=lambda found: abs(found[0]))
    return [f"*Predicted*: by the simulation of that commit. Over {len(errors)} timed schedules its median error is "
            f"{median:.1%}, the worst {worst:+.0%} ({row.operator} {row.m} {row.n} {row.k}, `{one.name}`)."]


def title(of, result):
    turn_ms = result.get("turn_ms", 0)
    return (f"## {result.get('of', of)}, {result['ranks']} x {result['machine']}"
            + (f", turns of {turn_ms:g} ms" if turn_ms else ""))


def turns(result):
    return "The second half of a turn is timed. " if result.get("turn_ms", 0) else ""


def fused_section(source, result, torch_rows):
    rows = fused_rows(result)
    by_operator = collections.defaultdict(list)
    for row in rows:
        by_operator[row.operator].append(row)
    parts = [title("Fused operators", result),
             f"Source: `{source}` at commit {result['commit']}, {result['date']}; "
             f"{result['data']} data; sizes are global. {turns(result)}The bars are those for 8 GPUs."
             + (f" {result['note']}" if "note" in result else ""),
             summary(result, torch_rows), *prediction_errors(rows), f"![times faster](../plots/{source.stem}.svg)"]
    for operator, group in by_operator.items():
        body = []
        for row in group:
            best = chosen(row)
            other = torch_rows.get((*session(result), *row[:5]))
            body.append([
                f"{row.m} {row.n} {row.k}", f"{row.gemm:.0f}", f"{row.nccl:.0f}",
                f"{row.sequential:.0f}", f"{other['fused_us']:.0f}" if other else "-",
                f"{best.time:.0f}", f"{best.low:.0f}–{best.high:.0f}",
                f"{best.predicted:.0f}" if best.predicted else "-", f"`{best.name}`",
                f"{row.sequential / best.time:.2f}", f"{row.floor / best.time:.2f}"])
        mean = geometric_mean(row.sequential / chosen(row).time for row in group)
        parts.append(f"### {operator}: {mean:.2f}x over the library path (geometric mean)")
        parts.append(table(["M N K", "GEMM", "NCCL", "sequence", "PyTorch fused", "Stretto",
                            "spread", "predicted", "schedule", "x sequence", "floor / measured"], body))
        parts += parts_table(group)
    return "\n\n".join(parts)


def beside_torch_section(source, result):
    """PyTorch's paths and Stretto in the same processes on the same tensors; empty where it took no part."""
    rows = [row for row in result["rows"] if "stretto_us" in row]
    if not rows:
        return ""
    by_operator = collections.defaultdict(list)
    for row in rows:
        by_operator[parse_operator(row["operator"])[0]].append(row)
    parts = [title("In one session with PyTorch", result),
             f"Source: `{source}` at commit {result['commit']}, PyTorch {result['torch']}: the "
             f"same processes and tensors, graphs of ten runs in turns, each path verified. {turns(result)}Stretto through its "
             f"Python binding, schedule {result['stretto']['schedule']}, {result['stretto']['rows']} rows."]
    for operator, group in by_operator.items():
        body = []
        for row in group:
            _, m, n, k, _ = parse_operator(row["operator"])
            rivals = [row.get(f"{label}_us") for label in ("sequential", "fused")]
            body.append([f"{m} {n} {k}"]
                        + [f"{row[key]:.1f}" if key in row else "failed"
                           for key in ("gemm_us", "nccl_us", "sequential_us", "fused_us", "stretto_us")]
                        + [f"{row['stretto_low_us']:.1f}–{row['stretto_high_us']:.1f}"]
                        + [f"{rival / row['stretto_us']:.2f}" if rival else "-" for rival in rivals])
        means = [geometric_mean(row[f"{label}_us"] / row["stretto_us"] for row in group
                                if f"{label}_us" in row) for label in ("sequential", "fused")]
        parts.append(f"### {operator}: {means[0]:.2f}x PyTorch's NCCL and matmul, {means[1]:.2f}x its fused operator "
                     "(geometric means)")
        parts.append(table(["M N K", "GEMM", "NCCL", "NCCL + matmul", "PyTorch fused", "Stretto", "spread",
                            "x NCCL + matmul", "x fused"], body))
    return "\n\n".join(parts)
