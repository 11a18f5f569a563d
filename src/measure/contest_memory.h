// What plans that are timed against each other take of GPU memory, told before any of it is taken:
// the caller's program has the rest.
#pragma once

#include <cstddef>

#include "fabric/fabric.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// Of every rank, beside the workspace that all of them take turns on and the caller's tensors.
size_t bytes_of_contestant(const Plan& plan);

// Collective. What is free now for each rank of a GPU, on the GPU that has the least.
size_t free_for_each_rank(fabric::Fabric& fabric);

}  // namespace stretto::runtime
