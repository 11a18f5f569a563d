// Counters that many lanes of one rank add to and many others wait for to the full. All of these
// learn the same, so it is one event that they hear of: the joint.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/counters.h"
#include "check/event_numbers.h"

namespace stretto::checker {

class Joints {
 public:
  Joints(const Plan& plan, const InstrIndex& index, const Counters& counters,
         const EventNumbers& numbers);

  static constexpr uint32_t kNone = UINT32_MAX;
  // Counters whose lanes tell with the same events share one.
  uint32_t of(uint32_t counter) const { return of_.empty() ? kNone : of_[counter]; }
  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }
  // Whose lanes add.
  uint16_t rank(uint32_t joint) const { return ranks_[joint]; }

 private:
  std::vector<uint32_t> of_;  // by counter; empty: there are none
  std::vector<uint16_t> ranks_;
};

}  // namespace stretto::checker
