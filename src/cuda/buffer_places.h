// Where the buffers of a plan lie in GPU memory.
#pragma once

#include <vector>

#include "cuda/device.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Where every instance of every buffer lies: [rank][buffer][copy], addresses as one rank sees them.
using BufferPlaces = std::vector<std::vector<std::vector<DevicePtr>>>;

// Instances that runs alternate between: the period after which buffers are the same again.
int num_sets(const Plan& plan);

}  // namespace stretto::cuda
