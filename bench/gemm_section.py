"""The part of docs/performance.md on the GEMM alone; report.py puts it there."""

from summary import heading_of, geometric_mean, table


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
