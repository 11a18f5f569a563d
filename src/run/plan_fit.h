// Whether a plan fits the GPUs of a fabric.
#pragma once

#include <vector>

#include "fabric/fabric.h"
#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// The plan. Throws UsageError where no GPU can run it; with `serves`, nor its runs of fewer rows.
const Plan& require_runnable(const Plan& plan, const cuda::TileSums& sums, bool serves);

// Throws UsageError where these GPUs cannot: there are more or fewer of them than ranks, or their
// SMs are too few; SystemError where they are of the wrong kind.
void require_fits(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                  const fabric::Fabric& fabric);

// The SMs that a plan's blocks leave on every rank to what runs beside them.
int sms_left(const Plan& plan, const cuda::Device& device);

}  // namespace stretto::runtime
