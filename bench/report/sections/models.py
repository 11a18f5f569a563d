"""The part of docs/performance on whole models in PyTorch; pages.py puts it there."""

from bench.report.sections.fused import title
from bench.report.summary import geometric_mean, table

OURS, FLOORS = "stretto", "alone"


def best_of(row, ours):
    """(way and mode, its figures) of the fastest of PyTorch's ways, or of ours; None where there is none."""
    return min(((label, way) for label, way in row["ways"].items()
                if label.startswith(OURS) == ours and not label.startswith(FLOORS) and "us" in way),
               key=lambda found: found[1]["us"], default=None)


def alone_us(row):
    """The time of the row with nothing communicated; None where it was not measured."""
    return min((way["us"] for label, way in row["ways"].items() if label.startswith(FLOORS) and "us" in way), default=None)


def cells(found):
    if found is None:
        return ["-", "-", "-"]
    label, way = found
    return [f"{way['us']:.0f}", label, f"{way['error']:.1e}" if "error" in way else "-"]


def models_section(source, result):
    body, by_kind, most = [], {}, {}
    for row in result["rows"]:
        theirs, ours = best_of(row, False), best_of(row, True)
        ratio = f"{theirs[1]['us'] / ours[1]['us']:.3f}" if theirs and ours else "-"
        if theirs and ours:
            by_kind.setdefault(row["kind"], []).append(theirs[1]["us"] / ours[1]["us"])
        alone = alone_us(row)
        if theirs and alone:
            most.setdefault(row["kind"], []).append(theirs[1]["us"] / alone)
        body.append([row["model"], row["kind"], f"{row['rows']}", f"{row['layers']}", *cells(theirs), *cells(ours),
                     ratio, f"{theirs[1]['us'] / alone:.3f}" if theirs and alone else "-"])
    alone = (" One rank has nothing to communicate: what is compared is the cost of Stretto's layers beside "
             "PyTorch's own." if result["ranks"] == 1 else "")
    means = "; ".join(f"{kind} {geometric_mean(found):.2f} (worst {min(found):.2f})" for kind, found in by_kind.items())
    if result["ranks"] > 1 and means:
        alone = f" Times as fast as PyTorch's fastest, in geometric mean: {means}."
    if most:
        alone += (" *Most*: the same of the products and whatever else a rank does, with nothing communicated; no way "
                  "can be faster: " + "; ".join(f"{kind} {geometric_mean(found):.2f}" for kind, found in most.items()) + ".")
    return "\n\n".join([
        title("Whole models in PyTorch", result),
        f"`{source}`, commit {result['commit']}, PyTorch {result['torch']}. A step of a model of Llama's shape with "
        f"random weights: prefill of one sequence, decode of as many sequences with {result['context']} tokens before, "
        "training forward and backward; the fastest of each side's ways, eager, in CUDA graphs or compiled and in "
        f"graphs. *Error*: of logits, or the worst gradient, from one rank's in fp32.{alone}",
        table(["model", "step", "rows", "layers", "PyTorch", "way", "error", "Stretto", "way", "error", "ratio",
               "most"],
              body)])
