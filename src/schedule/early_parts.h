// Sums of parts of the rows (`split`) that travel otherwise than those of the last part:
// "split=2/low-latency/early:mover=copy-engine".
//
// The last part's sums stand behind everything, so that they want the way of the fewest
// microseconds: kernels whose data says itself that it came. Those of the parts before it have the
// time of a product, but no SM: a library's kernel takes all of them. Copy engines take none.
#pragma once

#include "schedule/row_parts.h"

namespace stretto {

// As the name of an edge, where no segment has it.
inline constexpr std::string_view kEarlyParts = "early";

// Whether schedules of the operator may name it.
bool may_have_early_parts(const Operator& op, int split);
bool has_early_parts(const OperatorSchedule& schedule);
// What is wrong with it, and what would be right; empty where nothing is.
std::string why_no_early_parts(const Operator& op, const OperatorSchedule& schedule);

// What a part goes by, which is early itself or the last: its products have the schedule's points,
// but for early sums.
OperatorSchedule schedule_of_part(const Operator& op, const OperatorSchedule& schedule,
                                  bool is_last);

// How much of the rows the first of two parts should have: as much as leaves the links without a
// pause, for what the second part's product takes is what the first part's sums have. 0: no part is
// early.
double share_of_early_part(const Operator& op, const OperatorSchedule& schedule,
                           const Machine& machine);

}  // namespace stretto
