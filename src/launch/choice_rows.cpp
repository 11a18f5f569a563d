#include "launch/choice_rows.h"

#include <algorithm>

#include "plan/tile_task.h"
#include "stretto/call.h"

namespace stretto::cuda {

int64_t rows_in_memory(const Plan& plan, const Buffer& buffer) {
  if (!is_by_choice(buffer)) return buffer.rows;
  for (const OperatorOutput& output : plan.op.outputs) {
    const Tensor& tensor = plan.op.tensor(output.tensor);
    if (tensor.name == buffer.name) return tensor.rows;
  }
  return 0;  // no output of the operator's: nobody has memory for it
}

ChoiceRows::ChoiceRows(const Plan& plan) : plan_(plan) {
  if (plan.partitions.empty()) return;
  for (int rank = 0; rank < plan.ranks(); ++rank) tables_.push_back(partition_tables(plan, rank));
}

std::optional<ChoiceTables> ChoiceRows::of(const Instr& product, const Region& stored) const {
  const std::span<const Region> reads = plan_.reads(product);
  const Region& experts = reads[1];
  const int32_t entry_rows = stored.rows() / std::max(experts.rows(), 1);
  for (const PartitionTables& tables : tables_[static_cast<size_t>(stored.rank)]) {
    ChoiceTables found{tables.choices, &tables.rows};
    found.choices.row0 = stored.row0;
    found.choices.row1 = stored.row1;
    const bool is_own = !gathers_rows(product.op) ||
                        (reads[0].buffer == tables.choices.buffer && reads[0].row0 == stored.row0);
    const Buffer& of_choices = plan_.buffers[tables.choices.buffer];
    const auto entries = tables.entries(experts);
    const bool is_within = stored.row0 >= tables.choices.row0 && stored.row1 <= tables.choices.row1;
    if (!entries || !is_within || !is_own ||
        of_choices.partition != plan_.buffers[stored.buffer].partition) {
      continue;
    }
    if (stored.row0 - tables.choices.row0 != int64_t{entries->first} * entry_rows) continue;
    if (tables.rows.row1 > rows_in_memory(plan_, plan_.buffers[stored.buffer])) continue;
    return found;
  }
  return std::nullopt;
}

std::optional<ChoiceTables> ChoiceRows::of_permuted(const Instr& permute) const {
  const Region& choices = plan_.reads(permute)[0];
  const Region& stored = plan_.writes(permute)[0];
  for (const PartitionTables& tables : tables_[static_cast<size_t>(stored.rank)]) {
    const Region& all = tables.choices;
    const bool are_theirs = choices.buffer == all.buffer && choices.rank == all.rank &&
                            choices.row0 >= all.row0 && choices.row1 <= all.row1;
    const bool are_stored =
        stored.row0 == choices.row0 && stored.row1 == choices.row1 &&
        plan_.buffers[choices.buffer].partition == plan_.buffers[stored.buffer].partition;
    if (!are_theirs || !are_stored) continue;
    if (tables.rows.row1 > rows_in_memory(plan_, plan_.buffers[stored.buffer])) continue;
    return ChoiceTables{choices, &tables.rows};
  }
  return std::nullopt;
}

}  // namespace stretto::cuda
