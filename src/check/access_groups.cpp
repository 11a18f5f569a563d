#include "check/access_groups.h"

#include "plan/region_numbers.h"

namespace stretto::checker {

AccessGroups::AccessGroups(std::span<const Access> accesses) {
  const std::vector<uint32_t> group_of = number(accesses);
  uint32_t first = 0;
  for (Group& group : groups_) {
    group.first = first;
    first += group.count;
    group.count = 0;
  }
  accesses_.resize(accesses.size());
  for (uint32_t i = 0; i < accesses.size(); ++i) {
    Group& group = groups_[group_of[i]];
    accesses_[group.first + group.count++] = i;
  }
}

std::vector<uint32_t> AccessGroups::number(std::span<const Access> accesses) {
  std::vector<uint32_t> group_of;
  group_of.reserve(accesses.size());
  RegionNumbers numbers(accesses.size());
  for (const Access& access : accesses) {
    const uint32_t number = numbers.of(access.region);
    if (number == groups_.size()) groups_.push_back({access.region, 0, 0, false});
    Group& group = groups_[number];
    ++group.count;
    group.any_write |= access.is_write;
    group_of.push_back(number);
  }
  return group_of;
}

}  // namespace stretto::checker
