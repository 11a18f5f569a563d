#include "lower/rect.h"

namespace stretto {

std::vector<Rect> split(const Rect& rect, int row_parts, int col_parts, int32_t col_unit) {
  const int32_t units = (rect.cols() + col_unit - 1) / col_unit;
  const int32_t down = std::min(rect.rows(), std::max(1, row_parts));
  const int32_t across = std::min(units, std::max(1, col_parts));
  auto cut = [](int64_t size, int32_t i, int32_t parts) {
    return static_cast<int32_t>(size * i / parts);
  };
  std::vector<Rect> result;
  result.reserve(static_cast<size_t>(down) * static_cast<size_t>(across));
  for (int32_t r = 0; r < down; ++r) {
    for (int32_t c = 0; c < across; ++c) {
      result.push_back({rect.row0 + cut(rect.rows(), r, down),
                        rect.row0 + cut(rect.rows(), r + 1, down),
                        rect.col0 + cut(units, c, across) * col_unit,
                        std::min(rect.col1, rect.col0 + cut(units, c + 1, across) * col_unit)});
    }
  }
  return result;
}

}  // namespace stretto
