// The order in which one thread enqueues the steps of a rank's streams.
#pragma once

#include "cuda/rank_program.h"

namespace stretto::cuda {

// Sets program.order: comm blocks first, so that they have their SMs, and what waits for other
// steps of the rank behind them, as far as can be.
void order_steps(const Plan& plan, RankProgram& program);

}  // namespace stretto::cuda
