// Rows that choose experts: nothing is tuned of them, so presets are simulated.
#pragma once

#include "stretto/tune.h"

namespace stretto {

AutoSchedules routed_schedules(const Operator& op, const Machine& machine, RowCount rows);

}  // namespace stretto
