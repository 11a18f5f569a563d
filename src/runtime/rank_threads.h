// A thread for every rank of this process.
#pragma once

#include <functional>

#include "fabric/fabric.h"

namespace stretto::runtime {

// Calls work(rank) on a thread of its own for every local rank, the rank's GPU current there, and
// waits for all. Rethrows the failure of the lowest rank.
void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int)>& work);

}  // namespace stretto::runtime
