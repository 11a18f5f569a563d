#include "stretto/buckets.h"

#include <algorithm>

namespace stretto {

int64_t bucket_of(ProductKind kind, int ranks, int64_t rows) {
  constexpr int64_t kLeast = 64;
  const int64_t owners = Segment{kind}.owns_rows() ? ranks : 1;
  const int64_t own_rows = (std::max<int64_t>(1, rows) + owners - 1) / owners;
  int64_t octave = kLeast;
  while (octave * 2 < own_rows) octave *= 2;
  // Eight steps from an octave to the next.
  const int64_t step = std::max(kLeast, octave / 8);
  return (own_rows + step - 1) / step * step * owners;
}

std::vector<int64_t> buckets_up_to(ProductKind kind, int ranks, int64_t rows) {
  std::vector<int64_t> buckets = {bucket_of(kind, ranks, 1)};
  while (buckets.back() < rows) buckets.push_back(bucket_of(kind, ranks, buckets.back() + 1));
  return buckets;
}

}  // namespace stretto
