// The order in which one thread enqueues the steps of a rank's streams.
#pragma once

#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// Sets every program's order: comm blocks first, so that they have their SMs, and what waits behind
// what it waits for, as far as can be: steps of the rank, and of other ranks, whose own may stand
// behind steps of this one. Streams may share a queue of the hardware, and then a stream's wait
// holds up all that was enqueued after it.
void order_steps(const Plan& plan, std::vector<RankProgram>& programs);

}  // namespace stretto::cuda
