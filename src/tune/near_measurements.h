// What was measured near an operator, as a guess for it.
#pragma once

#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"
#include "tune/sureness.h"

namespace stretto {

struct ExpectedNearby {
  // That speak for it, the nearest first; empty where nothing was measured on the machine.
  std::vector<const TunedOperator*> operators;
  std::vector<Expectation> schedules;  // empty: none can serve
  bool is_thin = false;                // it has sums, and nothing near was measured
  double doubt = 1;  // how many times longer our own kernels are taken to take for that
};

// The usual schedules and what was fast on the nearest operators, each at its simulated time times
// how far off the simulation was on all that speak: for this very schedule, and for its kind. The
// nearer an operator the more it counts; far from all of them little but the simulation does.
// Simulates a hundred plans and more.
ExpectedNearby expected_nearby(const Segment& op, const Tuning& tuning, const Machine& machine,
                               RowCount rows, RowsFrom from, Predictions& predictions);

}  // namespace stretto
