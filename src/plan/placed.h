// The writes of a task, placed, without a list of them: for loops over whole plans.
#pragma once

#include "stretto/plan.h"

namespace stretto {

// Rows of the result of a task that is of a kind; 0 of others.
inline int64_t rows_of_task(const Plan& plan, const Instr& instr) {
  const TaskKind* const kind = instr.kind();
  return kind == nullptr ? 0 : kind->rows(plan.reads(instr), plan.writes(instr));
}

// Calls visit(region, row) for every write, in their order; see Placed.
template <typename Visit>
void for_each_placed_write(const Plan& plan, const Instr& instr, const Visit& visit) {
  const int64_t task_rows = rows_of_task(plan, instr);
  int64_t row = 0;
  for (const Region& write : plan.writes(instr)) {
    visit(write, static_cast<int32_t>(row));
    row += write.rows();
    if (row >= task_rows) row = 0;
  }
}

}  // namespace stretto
