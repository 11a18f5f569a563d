// What can be said of each task alone: its regions lie in memory that exists and that it may touch.
#pragma once

#include "check/findings.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Out of bounds: outside the rows and columns that the rank's buffer has.
// Wrong access: reading a peer's memory (data is pushed, never pulled), writing an input, writing
// memory of a peer that is not symmetric or output, a collective that leaves its own rank, and a
// deliver of what is no output.
void check_regions(const Plan& plan, Findings& findings);

bool in_bounds(const Plan& plan, const Region& region);

}  // namespace stretto::checker
