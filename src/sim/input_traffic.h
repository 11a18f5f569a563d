// What tiles read of their inputs from memory, by the order in which a rank's lanes compute them.
#pragma once

#include <functional>
#include <vector>

#include "stretto/plan.h"

namespace stretto::sim {

// Bytes, by rank and by boundaries before the kernel. The w-th tiles of a kernel's lanes are a
// wave: they go through K side by side, so what several of them share is read once. The next wave
// finds what it shares with those before in the L2 cache where all that was read in between fits
// into one of its halves, each of which keeps a copy of its own; `cache` is the bytes of both.
// `k_of`: how much of K a lane has of the tile of this task.
std::vector<std::vector<double>> bytes_from_memory(const Plan& plan, double cache,
                                                   const std::function<int(const Instr&)>& k_of);

}  // namespace stretto::sim
