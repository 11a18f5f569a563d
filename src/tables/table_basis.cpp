#include "tables/table_basis.h"

#include "stretto/error.h"

namespace stretto::cuda {

device::TaskRows TableBasis::task_rows(const Instr& instr) const {
  if (!serves) return {};
  const std::optional<stretto::TaskRows> rows = rows_of(instr);
  STRETTO_ASSERT(rows.has_value(), "tasks of a plan that serves have rows of one owner");
  return {rows->first, static_cast<device::uint16>(rows->owner), 0};
}

}  // namespace stretto::cuda
