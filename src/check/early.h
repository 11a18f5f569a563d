// Thresholds that notifies of later runs could reach too early.
#pragma once

#include "check/counters.h"
#include "check/execution.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// A rank that runs ahead could notify a counter for its next run while a slower rank's notify of
// this run is still missing; a wait that adds them up would pass too early. So each lane's next
// notify of the same counter must come after the wait, or after everything that the other lanes
// notify in the run waited for. That is always so when one lane, or one rank, notifies alone.
//
// The proof may use what waits are taken to know although this very check justifies it: look at the
// first wait in time that passes too early. All that passed before it did so rightly, so the order
// that they prove holds up to that moment, and puts the next run's notify after it.
void check_early_thresholds(const Plan& plan, const InstrIndex& index, const Counters& counters,
                            const Execution& execution, Findings& findings);

}  // namespace stretto::checker
