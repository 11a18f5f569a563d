#include "plan/region_numbers.h"

#include <algorithm>
#include <bit>

namespace stretto {
namespace {

constexpr size_t kLeastPlaces = 64;

uint64_t hash(const Region& region) {
  const auto both = [](int32_t a, int32_t b) {
    return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
  };
  uint64_t sum = uint64_t{region.buffer} << 16 | region.rank;
  for (const uint64_t word : {both(region.row0, region.row1), both(region.col0, region.col1)}) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace

RegionNumbers::RegionNumbers(size_t expected) { grow(std::max(kLeastPlaces, 2 * expected)); }

uint32_t RegionNumbers::of(const Region& region) {
  size_t at = place(region);
  if (table_[at] != 0) return table_[at] - 1;
  if (2 * (regions_.size() + 1) > table_.size()) {
    grow(2 * table_.size());
    at = place(region);
  }
  regions_.push_back(region);
  table_[at] = count();
  return count() - 1;
}

size_t RegionNumbers::place(const Region& region) const {
  const size_t mask = table_.size() - 1;
  size_t at = hash(region) & mask;
  while (table_[at] != 0 && regions_[table_[at] - 1] != region) at = (at + 1) & mask;
  return at;
}

void RegionNumbers::grow(size_t size) {
  table_.assign(std::bit_ceil(size), 0);
  for (uint32_t number = 0; number < count(); ++number) {
    table_[place(regions_[number])] = number + 1;
  }
}

}  // namespace stretto
