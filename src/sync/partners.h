// The instructions that the lanes of a cluster make side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Paired lanes go on together: what one awaits the other awaits at the same place. It costs
// nothing, for neither would get further, and says in the plan what it depends on: so a plan that
// is proved free of deadlocks stays so where a kernel couples the two.
class Partners {
 public:
  explicit Partners(const Draft& draft);

  // Of the instruction at `at` (a position in Draft::program), the one at the same place of the
  // other lane of its cluster; itself, where it has none.
  uint32_t of(uint32_t at) const { return partners_.empty() ? at : partners_[at]; }
  bool any() const { return !partners_.empty(); }

 private:
  std::vector<uint32_t> partners_;  // empty: none has one
};

}  // namespace stretto
