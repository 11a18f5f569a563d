// A buffer cut into cells.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/ceil_div.h"
#include "stretto/plan.h"

namespace stretto {

// Cells have the size of the buffer's first write, so a typical access takes all of one.
class CellGrid {
 public:
  CellGrid() = default;
  CellGrid(const Buffer& buffer, const Region& first_write)
      : rows_(buffer.rows), cols_(buffer.cols) {
    int32_t cell_rows = std::max(1, first_write.rows());
    int32_t cell_cols = std::max(1, first_write.cols());
    while (ceil_div(rows_, cell_rows) * ceil_div(cols_, cell_cols) > kMaxCells) {
      cell_rows *= 2;
      cell_cols *= 2;
    }
    down_ = static_cast<int32_t>(ceil_div(rows_, cell_rows));
    across_ = static_cast<int32_t>(ceil_div(cols_, cell_cols));
    rows_each_ = Size(cell_rows);
    cols_each_ = Size(cell_cols);
  }

  // Whether there is one: buffers that no task writes need none.
  explicit operator bool() const { return across_ > 0; }
  uint32_t count() const { return static_cast<uint32_t>(down_) * static_cast<uint32_t>(across_); }
  Region cell(uint32_t number) const {
    const auto row = static_cast<int32_t>(number) / across_ * rows_each_.size;
    const auto col = static_cast<int32_t>(number) % across_ * cols_each_.size;
    return {row, row + rows_each_.size, col, col + cols_each_.size, 0, 0};
  }

  // The cell that the region is; kNone when it is none.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t only_cell(const Region& region) const {
    const int32_t row = rows_each_.number_at(region.row0);
    const int32_t col = cols_each_.number_at(region.col0);
    const bool is_one = region.rows() == rows_each_.size && region.cols() == cols_each_.size &&
                        row * rows_each_.size == region.row0 &&
                        col * cols_each_.size == region.col0;
    return is_one ? static_cast<uint32_t>(row * across_ + col) : kNone;
  }

  // Calls visit(cell, all) for every cell that the region touches; `all`: it takes all of it.
  template <typename Visit>
  void for_each(const Region& region, const Visit& visit) const {
    const int32_t first_row = rows_each_.number_at(region.row0);
    const int32_t first_col = cols_each_.number_at(region.col0);
    for (int32_t row = first_row; int64_t{row} * rows_each_.size < region.row1; ++row) {
      const int64_t row0 = int64_t{row} * rows_each_.size;
      const bool all_rows =
          region.row0 <= row0 && region.row1 >= std::min<int64_t>(row0 + rows_each_.size, rows_);
      const uint32_t cells = static_cast<uint32_t>(row) * static_cast<uint32_t>(across_);
      for (int32_t col = first_col; int64_t{col} * cols_each_.size < region.col1; ++col) {
        const int64_t col0 = int64_t{col} * cols_each_.size;
        const bool all = all_rows && region.col0 <= col0 &&
                         region.col1 >= std::min<int64_t>(col0 + cols_each_.size, cols_);
        visit(cells + static_cast<uint32_t>(col), all);
      }
    }
  }

 private:
  static constexpr int64_t kMaxCells = 1 << 18;
  // Of most cells it is a power of two, by which no division is needed.
  struct Size {
    int32_t size = 1;
    int32_t shift = 0;  // -1: it is none

    Size() = default;
    explicit Size(int32_t value)
        : size(value),
          shift(std::has_single_bit(static_cast<uint32_t>(value))
                    ? std::countr_zero(static_cast<uint32_t>(value))
                    : -1) {}
    int32_t number_at(int32_t place) const { return shift >= 0 ? place >> shift : place / size; }
  };

  int32_t rows_ = 0, cols_ = 0;
  int32_t down_ = 0, across_ = 0;  // cells
  Size rows_each_, cols_each_;
};

}  // namespace stretto
