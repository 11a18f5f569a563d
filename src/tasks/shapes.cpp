#include "tasks/shapes.h"

#include <fmt/format.h>

namespace stretto::tasks {

TaskFault fault_in_shapes(std::span<const Region> reads) {
  const int32_t rows = reads[0].rows(), cols = reads[0].cols();
  for (const Region& read : reads) {
    if (read.rows() == rows && read.cols() == cols) continue;
    return {fmt::format("regions of one shape, {}x{}", rows, cols), &read};
  }
  return {};
}

}  // namespace stretto::tasks
