// The checker's judge: walks through every state that a small plan can reach in a few runs, and
// looks for races with its own eyes. Knows nothing of clocks or thresholds.
#pragma once

#include <cstddef>
#include <string>

#include "stretto/plan.h"

namespace stretto {

struct OracleVerdict {
  bool complete = false;  // false: too many states, nothing is said
  std::string fault;      // the first one found, or empty
  size_t states = 0;
};

// All regions of the plan are places: two regions are equal or do not overlap.
OracleVerdict explore(const Plan& plan, int runs, size_t max_states = 200000);

}  // namespace stretto
