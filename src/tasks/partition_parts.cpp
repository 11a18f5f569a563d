#include "tasks/partition_parts.h"

#include <fmt/format.h>

#include "tasks/tables.h"

namespace stretto::tasks {

device::Choices<int32_t> choices_of(const Work& work, const Operand& ids, int32_t own) {
  const auto experts = static_cast<int32_t>(work.operands.counts[0]);
  const device::ExpertShares shares{experts, work.operands.ranks};
  std::vector<int32_t>& compact = work.scratch.numbers;
  compact.resize(static_cast<size_t>(ids.rows * ids.cols));
  for (int64_t row = 0; row < ids.rows; ++row) {
    for (int64_t slot = 0; slot < ids.cols; ++slot) {
      compact[static_cast<size_t>(row * ids.cols + slot)] = number_in(ids, row, slot);
    }
  }
  return {compact.data(), static_cast<int32_t>(compact.size()),         1,
          experts,        own == experts ? 0 : shares.begin(work.rank), own};
}

TaskFault fault_in_counts(const KindOperands& of, const Region& counts, int64_t found) {
  const device::ExpertShares shares{static_cast<int32_t>(of.counts[0]), of.ranks};
  const int32_t of_rank = shares.size(counts.rank);
  const int64_t own = found - 1;
  if (own >= 1 && (own == of.counts[0] || own == of_rank)) return {};
  return {fmt::format("a count for each expert, all {} or the rank's {}, and one more",
                      of.counts[0], of_rank),
          &counts};
}

device::PartCounts counts_of_parts(const Operand& parts) {
  return {static_cast<const int32_t*>(parts.row(0)), static_cast<int32_t>(parts.view.stride),
          static_cast<int32_t>(parts.rows), 0};
}

}  // namespace stretto::tasks
