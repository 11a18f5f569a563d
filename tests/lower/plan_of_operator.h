// Plans of operators of any number of products, each in a line of text.
#pragma once

#include <string>

#include "stretto/lower.h"

namespace stretto {

// The plan for the default machine of the operator's ranks.
inline Plan plan_of_operator(const std::string& op_text, const std::string& schedules) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(schedules, op, machine), machine);
}

}  // namespace stretto
