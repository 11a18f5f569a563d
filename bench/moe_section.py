"""The part of docs/performance.md on whole layers of experts; report.py puts it there."""

from summary import geometric_mean, table

OTHERS = ("torch", "up alone", "down alone")


def plans_of(row):
    """(median us, [median, least, most], schedule) of each plan, the fastest first."""
    return sorted((times[0], times, name) for name, times in row["us"].items() if name not in OTHERS)


def products_us(row):
    return row["us"]["up alone"][0] + row["us"]["down alone"][0]


def moe_section(source, result):
    body, beside_torch, over_products = [], [], []
    for row in result["rows"]:
        plans = plans_of(row)
        if not plans:
            continue
        us, (_, low, high), name = plans[0]
        torch, products = row["us"]["torch"][0], products_us(row)
        beside_torch.append(torch / us)
        over_products.append(us / products)
        body.append([row["model"], row["load"], f"{row['t']} {row['h']} {row['f']} {row['experts']} {row['k']}",
                     f"{row['t'] * row['k'] / row['experts']:.0f}", f"{us:.1f}", f"{low:.1f}–{high:.1f}", f"`{name}`",
                     f"{torch:.1f}", f"{products:.1f}", f"{torch / us:.2f}", f"{us / products:.2f}"])
    return "\n\n".join([
        f"## {result.get('of', 'Layers of experts')}, {result['machine']}",
        f"Source: `{source}` at commit {result['commit']}, {result['date']}, PyTorch {result['torch']}; "
        f"{result['data']}. `moe-ep` of one rank of eight by itself, without its links, from ids to sums: *ep8* has an "
        "eighth of the experts, *tp8* an eighth of each one's inner columns. *PyTorch*: sort, gather, "
        "`torch._grouped_mm`, SwiGLU, `torch._grouped_mm`, gather and weighted sum, in one graph. *Products*: both "
        "alone by the grouped kernel on sorted rows, which is the floor. bf16, medians of graphs in turns, verified. "
        f"Over PyTorch {geometric_mean(beside_torch):.2f} in geometric mean (worst row {min(beside_torch):.2f}); "
        f"{geometric_mean(over_products):.2f} times as long as the products (at most {max(over_products):.2f}).",
        table(["model", "load", "t h f experts k", "rows an expert", "plan, us", "spread", "schedule", "PyTorch",
               "products", "x PyTorch", "plan / products"], body)])
