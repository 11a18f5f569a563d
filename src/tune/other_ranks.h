// What was measured with other numbers of ranks, as a guess for this one.
#pragma once

#include <optional>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

// Schedules that were measured on one operator, which can serve another.
struct MeasuredElsewhere {
  const TunedOperator* where = nullptr;
  std::vector<Schedule> schedules;  // for the other operator
  std::vector<double> factors;      // measured there over simulated there
};

// Of the operator whose GPUs each multiply nearly what those of `op` do: M, and N and K of a rank,
// within the factor that is near for measured_schedule(). The fastest, without what was hopeless;
// nothing where nothing such was measured. Simulates them there.
std::optional<MeasuredElsewhere> measured_with_other_ranks(const Operator& op,
                                                           const Machine& machine,
                                                           const Tuning& tuning, RowCount rows);

}  // namespace stretto
