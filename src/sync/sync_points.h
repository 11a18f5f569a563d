// Where the waits and notifies of an instruction may stand.
#pragma once

#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Points stand by position in Draft::program. An acquire point is the instruction in front of which
// the wait stands, a release point the one behind which the notify stands: itself, unless
// the schedule synchronises by events. Then compute lanes wait and notify only between kernels: in
// the rank's first compute lane, before the boundary that opens, and after the boundary that
// closes, the kernel to which the instruction belongs.
//
// Tasks of one kernel that depend on each other (ranges of K and their sum) cannot do that: they
// wait and notify where they stand.
struct SyncPoints {
  std::vector<uint32_t> acquire, release;
  std::vector<uint32_t> kernel;  // of tasks in compute lanes, with events; kNoKernel: none

  static constexpr uint32_t kNoKernel = UINT32_MAX;
  bool in_one_kernel(uint32_t a, uint32_t b) const {
    return kernel[a] != kNoKernel && kernel[a] == kernel[b];
  }
};

SyncPoints find_sync_points(const Draft& draft);

}  // namespace stretto
