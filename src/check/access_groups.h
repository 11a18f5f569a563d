// Accesses by their regions: many tasks touch the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/accesses.h"

namespace stretto::checker {

// The accesses to one buffer on one rank, those of one region together. Groups are numbered by
// their first accesses, and have their accesses in the order of execution.
class AccessGroups {
 public:
  explicit AccessGroups(std::span<const Access> accesses);

  uint32_t count() const { return static_cast<uint32_t>(groups_.size()); }
  // Indices of accesses, ascending.
  std::span<const uint32_t> of(uint32_t group) const {
    return std::span(accesses_).subspan(groups_[group].first, groups_[group].count);
  }
  const Region& region(uint32_t group) const { return groups_[group].region; }
  bool only_reads(uint32_t group) const { return !groups_[group].any_write; }

 private:
  struct Group {
    Region region;
    uint32_t first = 0, count = 0;  // in accesses_
    bool any_write = false;
  };

  // By access: its group.
  std::vector<uint32_t> number(std::span<const Access> accesses);

  std::vector<Group> groups_;
  std::vector<uint32_t> accesses_;
};

}  // namespace stretto::checker
