// Plans of operators and schedules in a line of text each.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "stretto/lower.h"

namespace stretto {

// The plan for the default machine of the operator's ranks.
inline Plan plan_of(const std::string& op_text, const std::string& schedule) {
  const Segment op = parse_segment(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

// The name of a test whose parameter has such texts.
template <typename ParamInfo>
std::string name_of_case(const ParamInfo& info) {
  std::string name = fmt::format("{}_{}_{}", info.index, info.param.op, info.param.schedule);
  const auto is_sign = [](unsigned char c) { return std::isalnum(c) == 0; };
  std::replace_if(name.begin(), name.end(), is_sign, '_');
  return name;
}

}  // namespace stretto
