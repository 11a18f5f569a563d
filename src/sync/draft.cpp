#include <algorithm>

#include "stretto/lower.h"

namespace stretto {

// Who makes a draft by hand may leave the stretches out: then it has one schedule for all.
const Schedule& Draft::schedule_at(uint32_t position) const {
  if (schedule.products.size() == 1 || stretches.empty()) return schedule.products.front();
  const auto at =
      std::upper_bound(stretches.begin(), stretches.end(), position,
                       [](uint32_t where, const Stretch& stretch) { return where < stretch.end; });
  return schedule.products[at == stretches.end() ? stretches.back().product : at->product];
}

}  // namespace stretto
