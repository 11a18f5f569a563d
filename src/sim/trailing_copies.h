// The copies of a communication block that follow one of its releases, with nothing but further
// notifies between them: the release drains behind what they send.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/costs.h"
#include "stretto/plan.h"

namespace stretto::sim {

class TrailingCopies {
 public:
  TrailingCopies(const Plan& plan, const Costs& costs);

  // Bytes that the copies behind instruction `pos` send while they read the first `most` bytes.
  double sent_behind(uint32_t lane, uint32_t pos, double most) const;

 private:
  struct Copy {
    uint32_t pos = 0;
    uint32_t first = 0;         // of the instructions of which it is reached by copies and notifies
    double read = 0, sent = 0;  // by all copies of the lane before it
    double own_read = 0, own_sent = 0;
  };
  std::vector<std::vector<Copy>> lanes_;  // ascending position
};

}  // namespace stretto::sim
