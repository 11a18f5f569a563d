// The plan has what its operator takes and gives.
#pragma once

#include "check/findings.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Reports that an input of the operator is not a buffer of the plan's, or not as large on some
// rank, which no run would accept.
void check_inputs(const Plan& plan, Findings& findings);

// Reports that there is no output buffer named `out`, or that it is not every rank's part of the
// operator's output. Whether all of it is written is check_memory()'s to say.
void check_output(const Plan& plan, Findings& findings);

}  // namespace stretto::checker
