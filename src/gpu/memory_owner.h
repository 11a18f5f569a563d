// Whose memory an address is, as the driver knows it. It may be asked while streams are captured.
#pragma once

#include <string>

#include "gpu/device.h"

namespace stretto::cuda {

// What the byte at an address is, where it is not memory of this GPU or managed by the driver:
// "the host's memory", "memory of GPU 1"; else empty.
std::string why_not_memory_of(const Device& device, DevicePtr at);
// A piece of memory that the driver gave, or mapped, as a whole.
struct Piece {
  DevicePtr begin = 0, end = 0;
  bool has(DevicePtr at) const { return begin <= at && at < end; }
};
// That in which the address is; empty where the driver does not say.
Piece piece_at(DevicePtr at);
// Whether some GPU reaches it: the driver made it, or was told of it.
bool reaches(DevicePtr at);

}  // namespace stretto::cuda
