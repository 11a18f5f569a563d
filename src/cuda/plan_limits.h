// Which plans the CUDA target can run.
#pragma once

#include <string>
#include <vector>

#include "stretto/plan.h"

namespace stretto::cuda {

// Why the CUDA target cannot run this plan; empty when it can.
std::vector<std::string> why_not_on_cuda(const Plan& plan);

}  // namespace stretto::cuda
