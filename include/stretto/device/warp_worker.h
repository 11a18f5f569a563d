// A warp as one who makes a partition with others.
#pragma once

#include "stretto/device/partition_steps.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

struct WarpWorker {
  static constexpr int32 kCount = 32;
  STRETTO_DEVICE static int32 number() { return static_cast<int32>(threadIdx.x % 32); }
  // By a vote on each bit of the columns.
  STRETTO_DEVICE static AlikeLanes alike(int32 column, int32 columns) {
    uint32 alike = __ballot_sync(0xffffffffu, column >= 0);
    alike = column >= 0 ? alike : ~alike;
#pragma unroll 2
    for (int32 bit = 1; bit < columns; bit *= 2) {
      const bool is_set = (column & bit) != 0;
      const uint32 set = __ballot_sync(0xffffffffu, is_set);
      alike &= is_set ? set : ~set;
    }
    const uint32 before = alike & ((1u << number()) - 1);
    return {__popc(before), __popc(alike), __ffs(static_cast<int>(alike)) - 1};
  }
  STRETTO_DEVICE static int32 of(int32 value, int32 lane) {
    return __shfl_sync(0xffffffffu, value, lane);
  }
  STRETTO_DEVICE static void meet() { __syncwarp(); }
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
