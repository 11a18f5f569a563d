// The ranks of this process, each on a thread, and what they agree on with other processes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace stretto::runtime {

// Calls work(rank) on a thread of its own for every local rank, the rank's GPU current there, and
// waits for all. Rethrows the failure of the lowest rank.
void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int)>& work);

// Collective. The largest of every process's values, one by one; each gives as many.
std::vector<double> largest(fabric::Fabric& fabric, std::string_view what,
                            std::vector<double> mine);
// The same of their means.
std::vector<double> mean(fabric::Fabric& fabric, std::string_view what, std::vector<double> mine);

}  // namespace stretto::runtime
