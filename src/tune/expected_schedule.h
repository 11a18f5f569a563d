// The schedule that is expected to be the fastest, by what was measured elsewhere only.
#pragma once

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// As simulated_schedule(), with simulated times that several choices share.
AutoSchedule expected_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, RowsFrom from, Predictions& predictions);

// As auto_schedule() of fixed rows, and auto_schedules(), likewise.
AutoSchedule auto_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                           Predictions& predictions);
AutoSchedules auto_schedules(const Operator& op, const Machine& machine, const Tuning& tuning,
                             Predictions& predictions);

// Of an operator that is not one product: the fastest measured on it on this kind of GPU; nothing
// where that is unknown.
std::optional<AutoSchedules> measured_schedules(const Operator& op, const Machine& machine,
                                                const Tuning& tuning);

}  // namespace stretto
