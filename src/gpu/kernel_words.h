// What sources and descriptions of kernels that multiply have in common.
#pragma once

#include <fmt/format.h>

#include <string>

#include "stretto/device/gemm_task.h"

namespace stretto::cuda {

using device::kSharedBytesOfHopper;

inline const char* name_of(device::Follower follower) {
  constexpr const char* kNames[] = {"none", "swiglu", "gelu", "silu"};
  return kNames[static_cast<int>(follower)];
}

// Why so many stages do not fit an SM; empty when they do.
inline std::string why_no_room(int stages, int shared_bytes) {
  if (shared_bytes <= kSharedBytesOfHopper) return "";
  return fmt::format("{} stages need {} bytes of shared memory; an SM gives {}", stages,
                     shared_bytes, kSharedBytesOfHopper);
}

}  // namespace stretto::cuda
