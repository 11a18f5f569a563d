// What makes a schedule impossible: the rules of every product, and those of its edge's row. Only
// rows are asked; nothing is lowered.
#include "lower/edge_row.h"
#include "stretto/error.h"

namespace stretto {

std::vector<std::string> legal(const Segment& op, const Schedule& schedule,
                               const Machine& machine) {
  std::vector<std::string> of_op = problems(op);
  const bool op_good = of_op.empty();
  Case c{op, schedule, machine, op_good, std::move(of_op)};
  check_numbers(c);
  check_ranges_of_k(c);
  check_machine(c);
  check_permute(c);
  check_kernel(c);
  if (op.looks_up()) {
    check_look_ups(c);
    return std::move(c.reasons);
  }
  if (op.is_routed()) {
    check_routed(c);
    return std::move(c.reasons);
  }
  const EdgeRow& row = row_at(op);
  STRETTO_ASSERT(row.check != nullptr, "an edge of rows that choose matrices");
  row.check(c);
  if (op.only_moves()) check_brought(c);
  check_size(c);
  return std::move(c.reasons);
}

}  // namespace stretto
