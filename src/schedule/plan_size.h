// How large a plan would get, before it is made: hostile or mistaken sizes are refused, not tried.
#pragma once

#include <span>
#include <string>

#include "stretto/schedule.h"

namespace stretto {

inline constexpr double kMaxPlanInstrs = 20e6;

// Instructions of all ranks, to within a small factor. Needs a valid operator and positive tiles.
double estimate_instrs(const Segment& op, const Schedule& schedule);

// The same of all segments of an operator, or of each part of its rows, under the schedules of its
// products: one says nothing of how many there are. Needs products that are legal by themselves.
double estimate_instrs(std::span<const Operator* const> parts,
                       const std::vector<Schedule>& products, const Machine& machine);

// What is wrong with that many, and what would be right; empty where nothing is.
std::string why_too_many_instrs(std::span<const Operator* const> parts,
                                const OperatorSchedule& schedule, const Machine& machine);

// The smallest tile, "256x512", grown from the schedule's by doubling its sides in turn up to
// `most`, whose plan is small enough; the largest when none is.
std::string suggest_tile(const Segment& op, const Schedule& schedule, int most);

}  // namespace stretto
