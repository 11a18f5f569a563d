"""The part of docs/performance on whole layers of experts; pages.py puts it there."""

from bench.report.summary import geometric_mean, table
from bench.shapes.moe_layers import best_deep_gemm, is_deep_gemm

OTHERS = ("torch", "up alone", "down alone")


def plans_of(row):
    """(median us, [median, least, most], schedule) of each plan, the fastest first."""
    return sorted((times[0], times, name) for name, times in row["us"].items()
                  if name not in OTHERS and not is_deep_gemm(name))


def products_us(row):
    return row["us"]["up alone"][0] + row["us"]["down alone"][0]


def times(quotient):
    return f"{quotient:.2f}" if quotient else "-"


def about_deep_gemm(result, beside):
    """How its contestants are made, and how the plan does beside them; of results without them nothing."""
    if "deep_gemm" not in result:
        return ""
    if not beside:
        return f" DeepGEMM took no part ({result['deep_gemm']})."
    return (f" *DeepGEMM* ({result['deep_gemm']}): the faster of its grouped products' two forms, contiguous and "
            "masked, behind a gather, and with SwiGLU and a weighted sum between and behind them, each one pass in "
            "Triton, in one graph. "
            f"Over DeepGEMM {geometric_mean(beside):.2f} in geometric mean (worst row {min(beside):.2f}).")


def moe_section(source, result):
    body, beside_torch, beside_deep_gemm, over_products = [], [], [], []
    columns = "deep_gemm" in result
    for row in result["rows"]:
        plans = plans_of(row)
        if not plans:
            continue
        us, (_, low, high), name = plans[0]
        torch, products = row["us"].get("torch", [None])[0], products_us(row)
        deep_gemm = best_deep_gemm(row["us"])
        beside_torch += [torch / us] if torch else []
        beside_deep_gemm += [deep_gemm / us] if deep_gemm else []
        over_products.append(us / products)
        body.append([row["model"], row["load"], f"{row['t']} {row['h']} {row['f']} {row['experts']} {row['k']}",
                     f"{row['t'] * row['k'] / row['experts']:.0f}", f"{us:.1f}", f"{low:.1f}–{high:.1f}", f"`{name}`",
                     f"{torch:.1f}" if torch else "-", *([f"{deep_gemm:.1f}" if deep_gemm else "-"] if columns else []),
                     f"{products:.1f}", times(torch and torch / us),
                     *([times(deep_gemm and deep_gemm / us)] if columns else []), f"{us / products:.2f}"])
    routing = result.get("routing", "uniform")
    named = "" if routing == "uniform" else f", {routing} routing"
    return "\n\n".join([
        f"## {result.get('of', 'Layers of experts')}{named}, {result['machine']}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}, PyTorch {result['torch']}; "
        f"{result['data']}. `moe-ep` of one rank of eight by itself, without its links, from ids to sums: *ep8* has an "
        "eighth of the experts, *tp8* an eighth of each one's inner columns. *PyTorch*: sort, gather, "
        "`torch._grouped_mm`, SwiGLU, `torch._grouped_mm`, gather and weighted sum, in one graph. *Products*: both "
        "alone by the grouped kernel on sorted rows, which is the floor. bf16, medians of graphs in turns, verified. "
        f"Over PyTorch {geometric_mean(beside_torch):.2f} in geometric mean (worst row {min(beside_torch):.2f}); "
        f"{geometric_mean(over_products):.2f} times as long as the products (at most {max(over_products):.2f})."
        + about_deep_gemm(result, beside_deep_gemm),
        table(["model", "load", "t h f experts k", "rows an expert", "plan, us", "spread", "schedule", "PyTorch",
               *(["DeepGEMM"] if columns else []), "products", "x PyTorch", *(["x DeepGEMM"] if columns else []),
               "plan / products"], body)])
