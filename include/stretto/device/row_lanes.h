// Who has a row of scores: one lane on the emulator, a warp on GPUs; and what they find together.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

namespace detail {

// One of those that are ordered; order 0, number -1: none.
struct Ranked {
  uint32 order = 0;
  int32 number = -1;

  STRETTO_PRIMITIVE bool is_before(const Ranked& other) const {
    return order > other.order || (order == other.order && number < other.number);
  }
};
inline constexpr Ranked kBeforeAll{~0u, -1};

}  // namespace detail

// The lanes that have a row are one.
struct OneLane {
  static constexpr int32 kCount = 1;
  STRETTO_PRIMITIVE int32 index() const { return 0; }
  STRETTO_PRIMITIVE bool any(bool is_so) const { return is_so; }
  STRETTO_PRIMITIVE detail::Ranked first(const detail::Ranked& one) const { return one; }
  STRETTO_PRIMITIVE float most(float one) const { return one; }
  STRETTO_PRIMITIVE float sum(float one) const { return one; }
  STRETTO_PRIMITIVE float of(float one, int32) const { return one; }
};

#ifdef STRETTO_DEVICE

// They are a warp, all of whose lanes call.
struct WarpLanes {
  static constexpr int32 kCount = 32;
  STRETTO_DEVICE int32 index() const { return static_cast<int32>(threadIdx.x % 32); }
  STRETTO_DEVICE bool any(bool is_so) const { return __any_sync(0xffffffffu, is_so); }
  STRETTO_DEVICE detail::Ranked first(const detail::Ranked& own) const {
    const uint32 best = __reduce_max_sync(0xffffffffu, own.order);
    const uint32 number = __reduce_min_sync(
        0xffffffffu, own.order == best ? static_cast<uint32>(own.number) : 0xffffffffu);
    return {best, static_cast<int32>(number)};
  }
  STRETTO_DEVICE float most(float one) const {
#pragma unroll
    for (int32 across = 16; across > 0; across /= 2) {
      one = fmaxf(one, __shfl_xor_sync(0xffffffffu, one, across));
    }
    return one;
  }
  STRETTO_DEVICE float sum(float one) const {
#pragma unroll
    for (int32 across = 16; across > 0; across /= 2) {
      one += __shfl_xor_sync(0xffffffffu, one, across);
    }
    return one;
  }
  STRETTO_DEVICE float of(float one, int32 lane) const {
    return __shfl_sync(0xffffffffu, one, lane);
  }
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
