// What was measured near an operator, as a guess for it.
#pragma once

#include <optional>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

// Schedules that were measured on one operator, which can serve another.
struct MeasuredNearby {
  const TunedOperator* where = nullptr;
  std::vector<Schedule> schedules;  // for the other operator
  std::vector<double> factors;      // measured there over simulated there
};

// Of the operator that is nearest by M, N and K with as many ranks; else of that whose GPUs each
// multiply nearly what those of `op` do (M, and N and K of a rank), with others. The fastest,
// without what was hopeless and, of other numbers of ranks, what NCCL moves: its latency is
// another. Nothing where nothing such was measured. Simulates them there.
std::optional<MeasuredNearby> measured_nearby(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows, RowsFrom from);

// Adds the fastest schedule with low-latency collectives of the nearest operator that has one, when
// there is none yet: what was measured with as many ranks may be older than these, or of more rows.
void add_low_latency(const Operator& op, const Machine& machine, const Tuning& tuning,
                     RowCount rows, RowsFrom from, MeasuredNearby& nearby);

}  // namespace stretto
