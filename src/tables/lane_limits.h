// What compute and comm lanes of a plan ask for that the kernels' tables or the GEMM kernel lack.
#pragma once

#include "tables/plan_limits.h"

namespace stretto::cuda {

// Reasons why no GPU can run a plan, each once.
class LimitList {
 public:
  void add(std::string reason, const std::optional<InstrRef>& where = std::nullopt);
  bool empty() const { return limits_.empty(); }
  std::vector<PlanLimit> take() && { return std::move(limits_); }

 private:
  std::vector<PlanLimit> limits_;
};

void add_lane_limits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits);

}  // namespace stretto::cuda
