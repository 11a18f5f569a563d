// Whether a run of a plan is as good as a fence.
#pragma once

#include "stretto/plan.h"

namespace stretto::checker {

// Whether no rank's run ends before every other rank's has begun: each rank makes a wait that it
// cannot pass without a notify of each other rank's run. Who has ended such a run knows that all
// ranks have ended what they did before it. False where no such waits are found; of collectives
// nothing is asked.
bool meets_all_ranks(const Plan& plan);

}  // namespace stretto::checker
