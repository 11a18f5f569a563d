// Where compute lanes go from one kernel to the next without a boundary in the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto::sim {

// On GPUs what a rank's compute lanes do between two boundaries is a GEMM kernel, and behind it,
// when all its blocks have ended, a kernel of movers: what lanes do after their last tile. To the
// tile belong notifies, and a sum that reads it as the lane has just computed it. There is no
// kernel of movers where all that it would do are rows that the GEMM kernel's blocks norm.
class MoverKernels {
 public:
  explicit MoverKernels(const Plan& plan);

  static constexpr uint32_t kNone = UINT32_MAX;
  // By lane, ascending: where it ends the GEMM kernel of a stretch that has a mover kernel too.
  const std::vector<uint32_t>& ends(uint32_t lane) const { return ends_[lane]; }
  bool any() const { return any_; }

 private:
  std::vector<std::vector<uint32_t>> ends_;
  bool any_ = false;
};

}  // namespace stretto::sim
