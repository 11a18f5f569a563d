// Which plans the CUDA target can run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Why the CUDA target cannot run a plan.
struct PlanLimit {
  std::string reason;
  std::optional<InstrRef> where;  // the first instruction that gives it, where one does
};

// All of them, none twice; empty when it can. With `serves` its runs may have fewer rows, by a
// kernel that may need wider tiles than the plan's.
std::vector<PlanLimit> limits_on_cuda(const Plan& plan, const TileSums& sums, bool serves = false);
// Their reasons.
std::vector<std::string> why_not_on_cuda(const Plan& plan, const TileSums& sums,
                                         bool serves = false);
std::vector<std::string> why_not_on_cuda(const Plan& plan);

// The first sum over ranges of K that its tile has not in registers: no mover makes it.
std::optional<PlanLimit> why_not_added(const Plan& plan);

// Why GPUs of an architecture run no plan; empty when they do.
std::string why_not_on_arch(std::string_view arch);

}  // namespace stretto::cuda
