"""The plots of docs/performance: how many times faster each row is; needs matplotlib."""

from bench.report.sections.graphs import is_of_graphs
from bench.report.summary import chosen, fused_rows, session, torch_times


def draw(results, folder):
    """Writes one plot for each result of fused operators."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stretto"  # the same file from the same results
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines: a third of the bytes
    from matplotlib import pyplot

    torch_rows = torch_times(results)
    folder.mkdir(exist_ok=True)
    for path, result in results:
        if result["benchmark"] != "fused" or is_of_graphs(result):
            continue
        rows = fused_rows(result)
        figure, axes = pyplot.subplots(figsize=(9, 0.28 * len(rows) + 1.2))
        places = range(len(rows), 0, -1)
        axes.barh(places, [r.sequential / chosen(r).time for r in rows], height=0.7,
                  color="#2a6f97", label="Stretto")
        others = [(place, row.sequential / other["fused_us"])
                  for place, row in zip(places, rows)
                  if (other := torch_rows.get((*session(result), *row[:5])))]
        if others:
            axes.plot([x for _, x in others], [y for y, _ in others], "o", color="#e76f51",
                      label="PyTorch fused")
        axes.plot([r.sequential / r.floor for r in rows], list(places), "|", color="black",
                  markersize=12, label="floor")
        axes.axvline(1, color="gray", linewidth=0.8)
        axes.set_ylim(0, len(rows) + 1)
        axes.set_yticks(list(places), [f"{r.operator} {r.m} {r.n} {r.k}" for r in rows],
                        fontsize=8)
        axes.set_xlabel(f"times faster than NCCL + cuBLAS, {rows[0].ranks} x {result['machine']}")
        axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
        figure.tight_layout()
        figure.savefig(folder / f"{path.stem}.svg", metadata={"Date": None})
        pyplot.close(figure)
