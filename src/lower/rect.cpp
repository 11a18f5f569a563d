#include "lower/rect.h"

namespace stretto {

std::vector<Rect> split(const Rect& rect, int parts, int32_t min_cols) {
  if (parts <= 1 || rect.empty()) return {rect};
  const int32_t row_parts = std::min(rect.rows(), parts);
  const int32_t col_units = (rect.cols() + min_cols - 1) / min_cols;
  const int32_t col_parts = std::min(col_units, parts / row_parts);
  std::vector<Rect> result;
  result.reserve(static_cast<size_t>(row_parts) * static_cast<size_t>(col_parts));
  auto cut = [](int64_t size, int32_t i, int32_t n) { return static_cast<int32_t>(size * i / n); };
  for (int32_t r = 0; r < row_parts; ++r) {
    for (int32_t c = 0; c < col_parts; ++c) {
      result.push_back(
          {rect.row0 + cut(rect.rows(), r, row_parts),
           rect.row0 + cut(rect.rows(), r + 1, row_parts),
           rect.col0 + cut(col_units, c, col_parts) * min_cols,
           std::min(rect.col1, rect.col0 + cut(col_units, c + 1, col_parts) * min_cols)});
    }
  }
  return result;
}

}  // namespace stretto
