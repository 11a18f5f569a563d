"""The part of docs/performance on operators of several products by `stretto bench`; pages.py puts it there."""

from bench.report.sections.fused import title, turns
from bench.report.sections.layers import kind_of, sizes_of
from bench.report.summary import BARS, geometric_mean, table


def is_of_graphs(result):
    """Whether a file of `stretto bench` has other operators than the fused ones."""
    return result["benchmark"] == "fused" and any(kind_of(row) not in BARS for row in result.get("rows", []))


def timed(row):
    """[(us, its name, the strategy's entry)], the fastest first."""
    return sorted(((one["time_us"], one["strategy"], one) for one in row["strategies"] if "time_us" in one),
                  key=lambda found: found[:2])


def chosen(row):
    """What `auto` took, where it took part; else the fastest; None where nobody was timed."""
    found = timed(row)
    return next((one for one in found if one[1] == "auto"), found[0] if found else None)


def body_of(row):
    us, name, one = chosen(row)
    others = ", ".join(f"{other} {time:.1f}" for time, other, _ in timed(row) if other != name)
    alone, library = row.get("gemm_us"), row.get("sequential_us")
    return [sizes_of(row), f"{alone:.1f}" if alone else "-", f"{library:.1f}" if library else "-",
            f"{us:.1f}", f"{one['low_us']:.1f}–{one['high_us']:.1f}",
            f"{one['predicted_us']:.1f}" if "predicted_us" in one else "-", f"`{one['short']}`",
            f"{library / us:.2f}" if library else "-", f"{row['floor_us'] / us:.2f}", others or "-"]


def graphs_section(source, result):
    rows = [row for row in result["rows"] if chosen(row)]
    parts = [title("Operators of several products", result),
             f"Source: `{source}` at commit {result['commit']}, {result['date']}; {result['data']} data; sizes are "
             f"global. {turns(result)}*Library*: every product by cuBLAS, every edge by NCCL, a kernel of one pass for what "
             "stands between, in one graph; products of experts, which cuBLAS does not take, by Stretto's kernel. *Alone*: "
             f"the products by cuBLAS.{' ' + result['note'] if 'note' in result else ''}"]
    for kind in dict.fromkeys(map(kind_of, rows)):
        group = [row for row in rows if kind_of(row) == kind]
        over = [row["sequential_us"] / chosen(row)[0] for row in group if row.get("sequential_us")]
        mean = (f"{geometric_mean(over):.2f}x over the library path (worst {min(over):.2f})" if over else
                "no library path")
        parts.append(f"### {kind}: {mean}")
        parts.append(table(["sizes", "alone", "library", "Stretto", "spread", "predicted", "schedule", "x library",
                            "floor / measured", "other schedules"], [body_of(row) for row in group]))
    return "\n\n".join(parts)
