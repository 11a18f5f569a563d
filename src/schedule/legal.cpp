// What makes a schedule impossible.
#include "schedule/legal_rules.h"

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
  if (op.looks_up()) {
    check_look_ups(c);
    return std::move(c.reasons);
  }
  if (op.ranks > 1 && !op.is_routed() && check_exchange(c)) {
    check_size(c);
    return std::move(c.reasons);
  }
  if (op.is_routed()) {
    check_routed(c);
    return std::move(c.reasons);
  }
  check_gathers(c);
  check_cluster(c);
  check_moves(c);
  check_libraries(c);
  check_size(c);
  return std::move(c.reasons);
}

}  // namespace stretto
