#include "cli/benched_operator.h"

#include <algorithm>

namespace stretto::cli {

double BenchedOperator::alone_us() const {
  if (expert_floor_us > 0) return look_up_floor_us + expert_floor_us;
  return look_up_floor_us + (library.gemm ? library.gemm->warm.median : 0);
}

double BenchedOperator::floor_us() const { return std::max(link_floor_us, alone_us()); }

const BenchedStrategy* BenchedOperator::fastest() const {
  const BenchedStrategy* best = nullptr;
  for (const BenchedStrategy& one : strategies) {
    if (!one.timed()) continue;
    if (best == nullptr || one.measured.times.warm.median < best->measured.times.warm.median) {
      best = &one;
    }
  }
  return best;
}

}  // namespace stretto::cli
