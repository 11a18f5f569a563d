// Where the buffers of a plan lie in GPU memory.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Where every instance of every buffer lies: [rank][buffer][copy], addresses as one rank sees them.
using BufferPlaces = std::vector<std::vector<std::vector<DevicePtr>>>;

// Where a buffer begins, in a run on instance set `set` (num_sets()).
inline DevicePtr address_of(const BufferPlaces& places, int rank, uint16_t buffer, int set) {
  const std::vector<DevicePtr>& copies = places[static_cast<size_t>(rank)][buffer];
  return copies[static_cast<size_t>(set) % copies.size()];
}
// Bytes from one row of a buffer to the next.
inline uint64_t row_bytes_of(const Buffer& buffer) {
  return static_cast<uint64_t>(buffer.cols) * static_cast<uint64_t>(num_bytes(buffer.dtype));
}
// Bytes from the first element of a buffer to another.
inline uint64_t offset_of(const Buffer& buffer, int32_t row, int32_t col) {
  return static_cast<uint64_t>(row) * row_bytes_of(buffer) +
         static_cast<uint64_t>(col) * static_cast<uint64_t>(num_bytes(buffer.dtype));
}

// Tables and calls are made for each set.
inline constexpr int kMostSets = 255;

// Instances that runs alternate between: the period after which buffers are the same again. Above
// kMostSets it is only known to be.
int num_sets(const Plan& plan);

}  // namespace stretto::cuda
