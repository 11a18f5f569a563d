// How many rows a call has.
#pragma once

#include <cstdint>

#include "gpu/driver_api.h"

namespace stretto::runtime {

// So many, or what `at` in the rank's memory says when its kernels start, which is then at most so
// many. All ranks say the same. 0: the plan's.
struct RowsOfCall {
  int32_t rows = 0;
  cuda::DevicePtr at = 0;
};

}  // namespace stretto::runtime
