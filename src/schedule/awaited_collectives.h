// Collectives between kernels that blocks of another product await inside a kernel.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

// Whether blocks wait for what a collective brings that a schedule with sync=event starts between
// kernels. A product with flags or counters waits for its input where tiles and movers need it, and
// so do the stages over rows behind it, and its sums, for all that is added to them. The
// collective needs an SM then, which no such block holds.
bool awaits_collectives_in_kernels(const Operator& op, const OperatorSchedule& schedule);

}  // namespace stretto
