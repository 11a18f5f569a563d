// What stands for libraries in a benchmark, where their calls alone do not make an operator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"

namespace stretto::runtime {

struct LibraryPlan {
  std::unique_ptr<Plan> plan;
  std::vector<std::string> refused;  // then there is no plan
};

// Products by cuBLAS, edges by NCCL, in one graph. What cuBLAS has no call for is a kernel of ours.
LibraryPlan library_plan(const Operator& op, const Machine& machine);

}  // namespace stretto::runtime
