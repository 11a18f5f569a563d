// The schedules that are worth a look for any operator.
#pragma once

#include <vector>

#include "stretto/machine.h"
#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

// The presets, `sequential` first, then what has been fastest on some shape; those that can serve
// the operator, or all `rows` of it. Throws UsageError when none can.
std::vector<Schedule> usual_schedules(const Segment& op, const Machine& machine,
                                      RowCount rows = RowCount::fixed);

}  // namespace stretto
