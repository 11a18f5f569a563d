// The ranks of this process, each on a thread, and what they agree on with other processes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace stretto::runtime {

// Calls work(i) for every i < `count` on a thread of its own, and waits for all. No work begins
// before begin(i) has been on every thread, and none at all where that failed on one: so work may
// wait for the others'. Rethrows the failure of the lowest i.
void on_threads(int count, const std::function<void(int i)>& begin,
                const std::function<void(int i)>& work);

// The same for every local rank, the rank's GPU current on its thread.
void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int rank)>& work);

// Collective. The largest of every process's values, one by one; each gives as many.
std::vector<double> largest(fabric::Fabric& fabric, std::string_view what,
                            std::vector<double> mine);
// The same of their means.
std::vector<double> mean(fabric::Fabric& fabric, std::string_view what, std::vector<double> mine);

}  // namespace stretto::runtime
