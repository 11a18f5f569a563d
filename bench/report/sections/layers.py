"""The part of docs/performance on layers on several GPUs beside libraries; pages.py puts it there."""

from bench.report.sections.fused import title, turns
from bench.report.summary import geometric_mean, table

OURS, PARTS, PRODUCTS, PLAIN = "stretto", "stretto parts", "products", "nccl"
IN_ORDER = " in order"  # of rows that somebody has put into their experts' order before, who is not timed
MOVED = ("dispatch", "combine", "dispatch-combine")  # nobody multiplies
LINK_GB_PER_S = 320  # as the page says of floors
ABOUT = ("*Library*: the fastest of the sequences that took part, by name: of cuBLAS and NCCL, of PyTorch's fused "
         "operators, of symmetric memory, of FlashInfer, or of grouped products by PyTorch or DeepGEMM, with kernels of "
         "one pass in Triton between. *Parts*: the same by Stretto's operators of one product with such kernels between. "
         "*Products*: these alone, by cuBLAS or PyTorch. The floor is the longer of these and the bytes that leave a GPU, "
         "and *in reach* is the library over it: nothing that multiplies as these do can be further ahead. "
         "In the sequences of experts all ids and the rows of every expert are known beforehand.")


def rivals(row):
    """(median us, label) of every sequence of libraries that does the same, the fastest first."""
    return sorted((times[0], label) for label, times in row["us"].items()
                  if not label.startswith(OURS) and label != PRODUCTS and not label.endswith(IN_ORDER))


def ours(row):
    """What a user gets: `auto`; None where it failed."""
    return row["us"].get(OURS)


def floor_of(row):
    link = row["link_bytes"] / LINK_GB_PER_S / 1e3
    if kind_of(row) in MOVED:
        return link
    return max(row["us"][PRODUCTS][0], link) if PRODUCTS in row["us"] else None


def kind_of(row):
    return row["operator"].split()[0]


def sizes_of(row):
    return " ".join(word for word in row["operator"].split()[1:] if word.split("=")[0] not in ("ranks", "dtype"))


def ratios(rows):
    """Over the best library, NCCL's best and parts, of rows that have both; and the library over the floor."""
    found = {"library": [], PLAIN: [], PARTS: [], "most": [], IN_ORDER: []}
    for row in rows:
        took, others = ours(row), rivals(row)
        if not took:
            continue
        found["most"] += [others[0][0] / floor_of(row)] if others and floor_of(row) else []
        found["library"] += [others[0][0] / took[0]] if others else []
        plain = [us for us, label in others if label.startswith(PLAIN)]
        found[PLAIN] += [min(plain) / took[0]] if plain else []
        found[PARTS] += [row["us"][PARTS][0] / took[0]] if PARTS in row["us"] else []
        ordered = [times[0] for label, times in row["us"].items() if label.endswith(IN_ORDER)]
        found[IN_ORDER] += [min(ordered) / took[0]] if ordered else []
    return found


def mean(values):
    return f"{geometric_mean(values):.2f} (worst {min(values):.2f})" if values else "-"


def cells(row):
    took, others, floor = ours(row), rivals(row), floor_of(row)
    alternatives = sorted((times[0], label) for label, times in row["us"].items()
                          if label.startswith(OURS) and label not in (OURS, PARTS))
    us = took[0] if took else None

    def over(other):
        return f"{other / us:.2f}" if us and other else "-"
    return [sizes_of(row), f"{row['us'][PRODUCTS][0]:.1f}" if PRODUCTS in row["us"] else "-",
            f"{others[0][0]:.1f}" if others else "-", others[0][1] if others else "-",
            f"{row['us'][PARTS][0]:.1f}" if PARTS in row["us"] else "-",
            f"{us:.1f}" if us else "failed", f"{took[1]:.1f}–{took[2]:.1f}" if us else "-",
            f"`{row['schedules'].get(OURS, '-')}`", over(others[0][0] if others else None),
            over(row["us"].get(PARTS, [None])[0]), f"{floor / us:.2f}" if us and floor else "-",
            ", ".join(f"{label.removeprefix(OURS).strip()} {time:.1f}" for time, label in alternatives) or "-"]


def layers_section(source, result):
    rows = [row for row in result["rows"] if "us" in row]
    names = ", ".join(result.get("packages", {}).values())
    parts = [title("Layers beside libraries", result),
             f"Source: `{source}` at commit {result['commit']}, {result['date']}, PyTorch {result['torch']}"
             f"{f', {names}' if names else ''}; {result['data']} data; sizes are global. {turns(result)}Graphs in turns, "
             f"each verified. {ABOUT}"]
    for kind in dict.fromkeys(map(kind_of, rows)):
        group = [row for row in rows if kind_of(row) == kind]
        found = ratios(group)
        over_parts = f", {mean(found[PARTS])} over the parts" if found[PARTS] else ""
        if found[IN_ORDER]:
            over_parts += (f", {mean(found[IN_ORDER])} over the fastest whose rows somebody has put into their experts' "
                           "order before, untimed")
        most = f" In reach: {geometric_mean(found['most']):.2f}." if found["most"] else ""
        parts.append(f"### {kind}\n\n{mean(found['library'])} over the fastest library, {mean(found[PLAIN])} over the best with "
                     f"NCCL{over_parts}.{most}")
        parts.append(table(["sizes", "products", "library", "which", "parts", "Stretto", "spread", "schedule",
                            "x library", "x parts", "floor / measured", "other schedules"], [cells(row) for row in group]))
        failed = [f"- {sizes_of(row)}: {label}: {why}" for row in group for label, why in row["failed"].items()]
        if failed:
            parts.append("Who took no part:\n\n" + "\n".join(failed))
    return "\n\n".join(parts)
