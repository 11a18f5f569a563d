// Reasons why no GPU can run a plan, as they are found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tables/plan_limits.h"

namespace stretto::cuda {

// Each once.
class LimitList {
 public:
  void add(std::string reason, const std::optional<InstrRef>& where = std::nullopt);
  bool empty() const { return limits_.empty(); }
  std::vector<PlanLimit> take() && { return std::move(limits_); }

 private:
  std::vector<PlanLimit> limits_;
};

}  // namespace stretto::cuda
