#include "tables/table_basis.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::cuda {

device::TaskRows TableBasis::task_rows(const Instr& instr) const {
  if (!serves) return {};
  const std::optional<stretto::TaskRows> rows = rows_of(instr);
  STRETTO_ASSERT(rows.has_value(), "tasks of a plan that serves have rows of one owner");
  return {rows->first, static_cast<device::uint16>(rows->owner), 0};
}

device::TaskRows TableBasis::mover_rows(const Instr& instr) const {
  device::TaskRows rows = task_rows(instr);
  if (!serves || !plan.any_library()) return rows;
  const auto is_of_rank = [&](const Region& region) {
    return plan.buffers[region.buffer].sharded_rows > 0;
  };
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (std::any_of(reads.begin(), reads.end(), is_of_rank) ||
      std::any_of(writes.begin(), writes.end(), is_of_rank)) {
    return rows;
  }
  rows.first += rows.owner * static_cast<int32_t>(row_owners(plan.op).block());
  return {rows.first, 0, device::kRowsOfAllOwners};
}

}  // namespace stretto::cuda
