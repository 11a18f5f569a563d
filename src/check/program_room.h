// Whether blocks of kernels that programs run side by side fit where their lanes do.
#pragma once

#include <vector>

#include "check/findings.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Of a plan whose block lanes all fit (residency.h has proved the rest of lanes): then blocks of
// one kernel of each stream must too, and where copy and nccl lanes have streams, whose kernels
// need a place as well, no blocks may stay to wait at their ends that could fill the SMs.
void check_program_room(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                        Findings& findings);

}  // namespace stretto::checker
