// Rectangles of a matrix, before it is said in which buffer of which rank they lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

struct Rect {
  int32_t row0 = 0, row1 = 0, col0 = 0, col1 = 0;

  int32_t rows() const { return row1 - row0; }
  int32_t cols() const { return col1 - col0; }
  int64_t elements() const { return int64_t{rows()} * cols(); }
  bool empty() const { return row1 <= row0 || col1 <= col0; }
  Rect moved(int32_t down, int32_t right = 0) const {
    return {row0 + down, row1 + down, col0 + right, col1 + right};
  }
  bool operator==(const Rect&) const = default;
};

inline Rect intersect(const Rect& a, const Rect& b) {
  return {std::max(a.row0, b.row0), std::min(a.row1, b.row1), std::max(a.col0, b.col0),
          std::min(a.col1, b.col1)};
}

inline Region region_of(const Rect& rect, uint16_t buffer, int rank) {
  return {rect.row0, rect.row1, rect.col0, rect.col1, buffer, static_cast<uint16_t>(rank)};
}

// A grid of row_parts x col_parts rectangles of nearly the same size that make up `rect`. Columns
// are cut at multiples of `col_unit` from its edge. There are fewer where rows or units run out.
std::vector<Rect> split(const Rect& rect, int row_parts, int col_parts, int32_t col_unit);

}  // namespace stretto
