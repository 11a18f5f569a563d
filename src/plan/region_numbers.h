// Distinct regions, found without sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/region.h"

namespace stretto {

// Gives regions numbers from 0 on, in the order in which they come first.
class RegionNumbers {
 public:
  // `expected`: about how many come, the same ones again counted.
  explicit RegionNumbers(size_t expected = 0);

  uint32_t of(const Region& region);
  uint32_t count() const { return static_cast<uint32_t>(regions_.size()); }
  const Region& operator[](uint32_t number) const { return regions_[number]; }

 private:
  // Where the region stands in table_, or should.
  size_t place(const Region& region) const;
  void grow(size_t size);

  std::vector<Region> regions_;  // by number
  std::vector<uint32_t> table_;  // by hash: 1 more than a number, or 0
};

}  // namespace stretto
