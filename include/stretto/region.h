// Region: a rectangle of one rank's part of a buffer of a plan.
#pragma once

#include <cstdint>

namespace stretto {

// A rectangle [row0, row1) x [col0, col1) of one rank's instance of a buffer.
struct Region {
  int32_t row0 = 0, row1 = 0, col0 = 0, col1 = 0;
  uint16_t buffer = 0;
  uint16_t rank = 0;

  int32_t rows() const { return row1 - row0; }
  int32_t cols() const { return col1 - col0; }
  int64_t elements() const { return int64_t{rows()} * cols(); }
  bool empty() const { return row1 <= row0 || col1 <= col0; }
  bool overlaps(const Region& other) const {
    return buffer == other.buffer && rank == other.rank && row0 < other.row1 && other.row0 < row1 &&
           col0 < other.col1 && other.col0 < col1;
  }
  bool operator==(const Region&) const = default;
};

}  // namespace stretto
