"""The part of docs/performance on operators of one rank by `stretto bench`; pages.py puts it there."""

from bench.report.summary import table


def cell(row, key):
    return f"{row[key]:.1f}" if key in row else "-"


def one_rank_section(source, result):
    body = []
    for row in result["rows"]:
        fastest = min(row[key] for key in ("tiles_us", "sequential_us") if key in row)
        body.append([row["operator"], cell(row, "tiles_us"), cell(row, "sequential_us"), cell(row, "library_us"),
                     cell(row, "cublas_alone_us"), cell(row, "predicted_us"),
                     f"{row['read_gb'] / fastest * 1e3:.1f} TB/s" if "read_gb" in row else "-"])
    return "\n\n".join([
        f"## Operators of one rank, {result['machine']}",
        f"{result['of']}. Source: `{source}` at commit {result['commit']}, {result['date']}; {result['data']}. *tiles* and "
        "*sequential*: with the kernels of Stretto. *Library*: cuBLAS, and a kernel of one pass for what stands "
        f"between; it has none for look-ups. Plans and predictions are for the machine `{result['plans_for']}`, whose "
        "rates are not this GPU's unless it is one of its. *Read*: the rows of tables, once for each bag that picks "
        "them.",
        table(["operator", "tiles, us", "sequential, us", "library, us", "cuBLAS alone, us",
               f"predicted for {result['plans_for']}, us", "read"], body)])
