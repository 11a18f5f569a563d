// The schedule that is expected to be the fastest, by what was measured elsewhere only.
#pragma once

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// As simulated_schedule(), with simulated times that several choices share.
AutoSchedule expected_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, RowsFrom from, Predictions& predictions);

}  // namespace stretto
