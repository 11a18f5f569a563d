// Numbers all instructions of a plan: those of lane 0 first, then those of lane 1, ...
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stretto/lower.h"
#include "stretto/plan.h"

namespace stretto::checker {

class InstrIndex {
 public:
  explicit InstrIndex(const Plan& plan) {
    first_.reserve(plan.lanes.size() + 1);
    first_.push_back(0);
    for (const Lane& lane : plan.lanes) {
      first_.push_back(first_.back() + static_cast<uint32_t>(lane.instrs.size()));
    }
  }

  uint32_t size() const { return first_.back(); }
  uint32_t of(uint32_t lane, uint32_t pos) const { return first_[lane] + pos; }
  uint32_t of(InstrRef ref) const { return of(ref.lane, ref.pos); }
  InstrRef ref(uint32_t instr) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), instr);
    const auto lane = static_cast<uint32_t>(after - first_.begin()) - 1;
    return {lane, instr - first_[lane]};
  }

 private:
  std::vector<uint32_t> first_;  // by lane, and one past the last
};

}  // namespace stretto::checker
