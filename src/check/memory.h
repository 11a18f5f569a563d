// Proves that every access to memory is ordered with the accesses it must not race with.
//
// For every place (an instance of a buffer on a rank): each read comes after a write of its run,
// and reads and writes of one run are ordered; the write that begins run e + copies comes after
// all accesses of run e to the same instance. For outputs it also comes after the end of run e on
// the rank (the caller reads them then), every write precedes that end, and all rows are written.
//
// Runs 0 and `copies` stand for all pairs of runs: all runs are alike, except that in the first
// ones waits with lag pass freely, so that what holds between the first two holds between any.
#pragma once

#include "check/execution.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Returns the number of ordered pairs of accesses that were proved. The execution has finished.
size_t check_memory(const Plan& plan, const InstrIndex& index, const Execution& execution,
                    Findings& findings);

}  // namespace stretto::checker
