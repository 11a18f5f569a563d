// A set of small integers that can be picked from at random in constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/random.h"

namespace stretto::emu {

class IndexSet {
 public:
  explicit IndexSet(size_t universe) : place_(universe, kAbsent) {}

  bool empty() const { return members_.empty(); }
  bool contains(uint32_t index) const { return place_[index] != kAbsent; }
  uint32_t pick(Random& random) const { return members_[random.below(members_.size())]; }

  void insert(uint32_t index) {
    if (contains(index)) return;
    place_[index] = static_cast<uint32_t>(members_.size());
    members_.push_back(index);
  }
  void erase(uint32_t index) {
    if (!contains(index)) return;
    const uint32_t last = members_.back();
    members_[place_[index]] = last;
    place_[last] = place_[index];
    place_[index] = kAbsent;
    members_.pop_back();
  }
  void clear() {
    for (const uint32_t index : members_) place_[index] = kAbsent;
    members_.clear();
  }

 private:
  static constexpr uint32_t kAbsent = ~uint32_t{0};
  std::vector<uint32_t> members_;
  std::vector<uint32_t> place_;  // where a member stands in members_
};

}  // namespace stretto::emu
