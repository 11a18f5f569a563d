// Whether programs keep what orders the instructions of a plan.
//
// A plan is proved from few sorts of edges: one instruction of a lane to the next, notifies to
// waits, boundaries to all compute lanes, and meetings of ranks. A program has lanes cut into
// blocks and steps; boundaries are ends of kernels, and events stand for some waits and notifies.
// Here every edge that the program does not have as such is found in what it has instead: an
// instruction begins when all has ended, in blocks and steps of its rank, that its lane knows of by
// then. So what happens before what in a plan does in its programs, and what was proved of the plan
// holds.
#pragma once

#include <vector>

#include "check/counters.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "check/program_places.h"
#include "check/stream_clocks.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Of a plan that comes to its end. Places and clocks, one for each rank, are to be relied on.
void check_program_order(const Plan& plan, const InstrIndex& index, const Counters& counters,
                         const std::vector<cuda::RankProgram>& programs,
                         const ProgramPlaces& places, const std::vector<StreamClocks>& clocks,
                         Findings& findings);

}  // namespace stretto::checker
