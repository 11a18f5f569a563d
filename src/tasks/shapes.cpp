#include "tasks/shapes.h"

#include <fmt/format.h>

namespace stretto::tasks {

TaskFault fault_in_number(std::span<const Region> reads, size_t number, std::string_view expected) {
  if (reads.size() == number) return {};
  return {std::string(expected), nullptr, fmt::format("{}", reads.size())};
}

TaskFault fault_in_shared_row(std::span<const Region> reads) {
  const int32_t cols = reads[0].cols();
  if (reads[1].rows() == 1 && reads[1].cols() == cols) return {};
  return {fmt::format("one row of {} columns", cols), &reads[1]};
}

TaskFault fault_in_shapes(std::span<const Region> reads) {
  const int32_t rows = reads[0].rows(), cols = reads[0].cols();
  for (const Region& read : reads) {
    if (read.rows() == rows && read.cols() == cols) continue;
    return {fmt::format("regions of one shape, {}x{}", rows, cols), &read};
  }
  return {};
}

size_t tiles_beside(std::span<const Region> reads, int32_t cols) {
  size_t count = 0;
  for (int64_t together = 0; count < reads.size() && together < cols; ++count) {
    together += reads[count].cols();
  }
  return count;
}

}  // namespace stretto::tasks
