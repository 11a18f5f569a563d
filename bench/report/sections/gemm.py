"""The part of docs/performance on the GEMM alone; pages.py puts it there."""

from bench.report.summary import heading_of, geometric_mean, table


def gemm_section(source, result):
    rows = result["rows"]
    body = [[f"{r['m']}", f"{r['n']}", f"{r['k']}", f"{r['cublas_us']:.1f}", f"{r['time_us']:.1f}",
             f"{r['low_us']:.1f}–{r['high_us']:.1f}", f"{r['ratio']:.3f}"] for r in rows]
    large = [r["ratio"] for r in rows if r["m"] >= 2048]
    small = [r["ratio"] for r in rows if r["m"] < 2048]
    summary = ", ".join(
        f"{geometric_mean(ratios):.3f} at M {bound} 2048 (worst row {min(ratios):.3f})"
        for ratios, bound in ((large, ">="), (small, "<")) if ratios)
    return "\n\n".join([
        f"## The GEMM alone, {result['machine']}{heading_of(result)}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}; "
        f"{result['data']} data. Ratio: cuBLAS over Stretto; geometric mean {summary}.",
        table(["M", "N", "K", "cuBLAS, us", "Stretto, us", "spread", "ratio"], body)])


def few_rows_section(source, result):
    """The kernel of few rows: of each shape cuBLAS, and what was chosen."""
    by_shape = {}
    for row in result["rows"]:
        by_shape.setdefault((row["m"], row["n"], row["k"]), []).append(row)
    body, ratios = [], []
    for (m, n, k), rows in by_shape.items():
        library = next(r for r in rows if r["by"] == "cublas")
        ours = next(r for r in rows if r["by"] != "cublas")
        ratios.append(library["cold_us"] / ours["cold_us"])
        body.append([f"{m}", f"{n}", f"{k}", f"{2 * n * k / 4.3e6:.1f}",
                     f"{library['cold_us']:.1f}", f"{ours['cold_us']:.1f}",
                     f"{ours['early_us']:.1f}", f"{ratios[-1]:.2f}", ours["by"]])
    return "\n\n".join([
        f"## Few rows that are sent from their product, {result['machine']}{heading_of(result)}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}; {result['data']} data; weights in no "
        "cache. *Floor*: the weights' bytes at 4.3 TB/s. *Sent*: rows are stored twice, as for "
        "two ranks, in local memory. *Early*: rows go into the result, "
        "and weights are asked for before the kernel ahead has ended. Ratio: cuBLAS over sent; geometric mean "
        f"{geometric_mean(ratios):.2f} (worst row {min(ratios):.2f}).",
        table(["M", "N", "K", "floor, us", "cuBLAS, us", "sent, us", "early, us", "ratio", "kernel"], body)])
