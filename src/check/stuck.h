// Explains why an execution did not finish.
#pragma once

#include "check/counters.h"
#include "check/execution.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Reports every cycle of lanes that wait for each other. Lanes that only wait for such a lane, or
// for one with an unreachable threshold, are not reported.
void check_stuck(const Plan& plan, const InstrIndex& index, const Counters& counters,
                 const Execution& execution, Findings& findings);

}  // namespace stretto::checker
