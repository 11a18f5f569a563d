// Plans of operators and schedules in a line of text each.
#pragma once

#include <string>

#include "stretto/lower.h"

namespace stretto {

// For the default machine of the operator's ranks.
inline Plan plan_of(const std::string& op_text, const std::string& schedule) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

}  // namespace stretto
