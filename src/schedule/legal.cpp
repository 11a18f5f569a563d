// What makes a schedule impossible.
#include "schedule/legal_rules.h"
#include "stretto/error.h"

namespace stretto {
namespace {

#define STRETTO_ROW(name, ...) &edge_rules::name,
const EdgeRules* const kEdgeRules[] = {STRETTO_EDGES(STRETTO_ROW)};
#undef STRETTO_ROW

// On one rank nothing moves.
const EdgeRules& rules_of(const Segment& op) {
  const Edge at_product = op.kind.in != Edge::none ? op.kind.in : op.kind.out;
  const Edge edge = op.ranks > 1 ? at_product : Edge::none;
  return *kEdgeRules[static_cast<size_t>(edge)];
}

}  // namespace

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
  if (op.is_routed()) {
    check_routed(c);
    return std::move(c.reasons);
  }
  const EdgeRules& rules = rules_of(op);
  STRETTO_ASSERT(rules.check != nullptr, "an edge of rows that choose matrices");
  rules.check(c);
  check_size(c);
  return std::move(c.reasons);
}

}  // namespace stretto
