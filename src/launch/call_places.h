// Tensors that only a call names. What is made before calls, tables and lists of copies, has in
// their place addresses that no GPU has; a call's own take their place.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/device.h"

namespace stretto::cuda {

// Where the tensor with this index (call.h) seems to lie.
constexpr DevicePtr stand_in(size_t tensor) {
  return (DevicePtr{1} << 63) | (static_cast<DevicePtr>(tensor) << 48);
}
constexpr bool is_stand_in(DevicePtr at) { return at >> 63 != 0; }
constexpr size_t tensor_of(DevicePtr at) { return (at >> 48) & 0x7fff; }
constexpr uint64_t offset_in_tensor(DevicePtr at) { return at & ((uint64_t{1} << 48) - 1); }

// A tensor of one call, on one rank.
struct CallPlace {
  DevicePtr address = 0;
  uint64_t row_bytes = 0;    // from one row to the next
  uint64_t solid_bytes = 0;  // the same of a tensor without gaps, which stand-ins count by
  int64_t rows = 0;          // that there are
  bool operator==(const CallPlace&) const = default;

  int64_t row_of(DevicePtr stand_in) const {
    return static_cast<int64_t>(offset_in_tensor(stand_in) / solid_bytes);
  }
};
using CallPlaces = std::span<const CallPlace>;

// An address, or what a call has for a stand-in.
inline DevicePtr at_call(DevicePtr at, CallPlaces places) {
  if (!is_stand_in(at)) return at;
  const CallPlace& place = places[tensor_of(at)];
  const uint64_t offset = offset_in_tensor(at);
  if (place.row_bytes == place.solid_bytes) return place.address + offset;
  return place.address + offset / place.solid_bytes * place.row_bytes + offset % place.solid_bytes;
}

}  // namespace stretto::cuda
