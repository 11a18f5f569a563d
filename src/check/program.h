// Proves that what ranks enqueue for a plan keeps what was proved of it.
#pragma once

#include <string>
#include <vector>

#include "check/counters.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Makes the programs of a plan that is whole and has no faults by itself, and looks for theirs. Why
// it has none, or none that GPUs run; empty: they run it.
std::string check_programs(const Plan& plan, const InstrIndex& index, const Counters& counters,
                           Findings& findings);

// Of programs that were made for the plan.
void check_programs(const Plan& plan, const InstrIndex& index, const Counters& counters,
                    const std::vector<cuda::RankProgram>& programs, Findings& findings);
std::vector<Diagnostic> check_programs(const Plan& plan,
                                       const std::vector<cuda::RankProgram>& programs);

}  // namespace stretto::checker
