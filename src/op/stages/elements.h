// What makes exact values element by element, and how far results may be from them.
#pragma once

#include "op/rows.h"

namespace stretto {

inline constexpr double kFp32 = 0x1p-24;  // unit roundoff

inline double squared(double x) { return x * x; }

// Element by element: `visit` gets the row, and the indices in x and in y, whose one row may go
// with all rows.
template <typename Visit>
void for_each_element(const Rows& x, const Rows* y, const Visit& visit) {
  const bool is_row = y != nullptr && y->rows == 1 && x.rows != 1;
  for (int64_t row = 0; row < x.rows; ++row) {
    for (int64_t col = 0; col < x.cols; ++col) {
      visit(row, x.at(row, col), is_row ? y->at(0, col) : x.at(row, col));
    }
  }
}

}  // namespace stretto
