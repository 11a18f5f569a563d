// Compute lanes of a plan as clusters of two blocks, which share what they load of B.
#pragma once

#include <string>

#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Why the lanes of a plan's clusters cannot be pairs of blocks; empty when they can, or the plan
// has none. Plans have seen to it that lanes of a cluster multiply and wait alike (plan.h). What a
// block does beside that it must do without its partner: so sums stay in its registers, and all of
// a rank's work is one kernel, for no other's blocks may stand where a cluster needs two SMs side
// by side.
std::string why_no_pairs(const Plan& plan, const TileSums& sums);

}  // namespace stretto::cuda
