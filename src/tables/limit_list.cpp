#include "tables/limit_list.h"

#include <algorithm>

namespace stretto::cuda {

void LimitList::add(std::string reason, const std::optional<InstrRef>& where) {
  const bool known = std::any_of(limits_.begin(), limits_.end(),
                                 [&](const PlanLimit& one) { return one.reason == reason; });
  if (!known) limits_.push_back({std::move(reason), where});
}

}  // namespace stretto::cuda
