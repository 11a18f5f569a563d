// How large a plan would get, before it is made: hostile or mistaken sizes are refused, not tried.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

inline constexpr double kMaxPlanInstrs = 20e6;

// Instructions of all ranks, to within a small factor. Needs a valid operator and positive tiles.
double estimate_instrs(const Segment& op, const Schedule& schedule);

// The smallest tile, "256x512", grown from the schedule's by doubling its sides in turn up to
// `most`, whose plan is small enough; the largest when none is.
std::string suggest_tile(const Segment& op, const Schedule& schedule, int most);

}  // namespace stretto
