// In which turn a rank serves the others.
#pragma once

#include <vector>

#include "stretto/machine.h"
#include "stretto/schedule.h"

namespace stretto {

// turn[o]: the how-manieth of the R owners a rank comes to. Tiles follow it (see tile_turns.h).
std::vector<int> owner_turns(Order order, bool gathers, int rank, int ranks,
                             const Machine& machine);

// The peers of `rank` in the order in which they are sent to. Gathers begin with the previous rank,
// because it consumes this rank's shard right after its own; reductions with the next rank. So at
// any time every rank hears from one other.
std::vector<int> peer_order(Order order, bool gathers, int rank, int ranks, const Machine& machine);

}  // namespace stretto
