// Whether the streams of ranks that share a GPU run at once (gpu/shared_gpus.h).
#pragma once

#include <string>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Why this plan cannot run with so many ranks on a GPU; empty when it can.
std::vector<std::string> why_not_shared(const Plan& plan, const std::vector<RankProgram>& programs,
                                        int ranks_a_gpu);

}  // namespace stretto::cuda
