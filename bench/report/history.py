"""Which results others have taken the place of; what is measured of them stands on a page of its own."""

# By file, the one that has the same rows by later code.
SUPERSEDED = {
    "dispatch_h200_x4.json": "language_h200_x4.json",
    "experts_h200_x2.json": "experts_sent_h200_x2.json",
    "layers_h200_x2.json": "layers_passes_h200_x2.json",
    "moe_bands_h100_x1.json": "moe_blocks_h100_x1.json",
    "moe_experts_h100_x1.json": "moe_blocks_h100_x1.json",
    "moe_h100_x1.json": "moe_blocks_h100_x1.json",
    "moe_partition_mover_h200_x1.json": "moe_partition_kernel_h200_x1.json",
    "moe_partitions_h100_x1.json": "moe_blocks_h100_x1.json",
    "moe_permute_h100_x1.json": "moe_blocks_h100_x1.json",
    "operators_untuned_h200_x2.json": "operators_h200_x2.json",
}
# By file, the one whose rows it has measured again, to see that nothing was lost.
REPEATED = {"operators_again_h200_x2.json": "operators_h200_x2.json"}
# By file, those that have measured some of its rows by later code, the last one behind.
LATER_ROWS = {"layers_passes_h200_x2.json": ("layers_together_h200_x2.json", "layers_joined_h200_x2.json")}
# Files of layers by the day they are of, in the order of their runs; others of that day were run behind these.
RUNS_OF_A_DAY = {
    "2026-11-28": ("layers_h200_x2.json", "experts_h200_x2.json", "layers_passes_h200_x2.json",
                   "layers_together_h200_x2.json", "experts_sent_h200_x2.json", "layers_joined_h200_x2.json",
                   "a2a_by_source_h200_x2.json"),
    "2026-11-29": ("few_rows_graphs_h200_x2.json", "few_rows_gates_h200_x2.json", "experts_passes_h200_x2.json",
                   "moved_h200_x2.json", "layers_again_h200_x2.json", "norms_again_h200_x2.json",
                   "experts_by_blocks_h200_x2.json", "experts_copies_h200_x2.json",
                   "experts_beside_flashinfer_h200_x2.json", "norms_passes_h200_x2.json",
                   "experts_elected_h200_x2.json", "mlp_ways_h200_x2.json"),
    # Of norms the first timed presets alone.
    "2026-11-30": ("norms_restored_h200_x2.json", "layers_few_rows_h200_x2.json", "experts_by_ids_h200_x2.json",
                   "experts_again_h200_x2.json", "experts_few_tokens_h200_x2.json",
                   "experts_early_sums_h200_x2.json", "experts_unseen_h200_x2.json",
                   "experts_few_again_h200_x2.json", "experts_halves_h200_x2.json",
                   "one_token_h200_x2.json", "mixtral_few_h200_x2.json", "mixtral_odd_h200_x2.json",
                   "layers_paced_h200_x2.json", "experts_tall_tiles_h200_x2.json",
                   "experts_many_down_h200_x2.json", "experts_tall_kernels_h200_x2.json",
                   "experts_tile_behind_tile_h200_x2.json"),
}


def age(path, result):
    """What sorts results by when they were run, the last one behind."""
    day = RUNS_OF_A_DAY.get(result.get("date", ""), ())
    return result.get("date", ""), day.index(path.name) if path.name in day else len(day), path.name


def has_later_rows(path):
    """Of a summary, which takes each row from the last run that has it."""
    return path.name in LATER_ROWS


def is_in_part(path):
    """Whether a summary takes its rows in the place of another's."""
    return any(path.name in files for files in LATER_ROWS.values())


def last_rows(path, result, by_name):
    """The rows of a result, each as the last run has it."""
    rows = {row["operator"]: row for row in result["rows"]}
    for file in LATER_ROWS.get(path.name, ()):
        rows.update((row["operator"], row) for row in by_name[file]["rows"] if "us" in row)
    return list(rows.values())


def is_history(path):
    return path.name in SUPERSEDED or path.name in REPEATED


def note_on(path):
    """What a reader is told ahead of such a result's section."""
    if path.name in SUPERSEDED:
        return f"`{SUPERSEDED[path.name]}` has these rows by later code."
    return f"This measures the rows of `{REPEATED[path.name]}` again."
