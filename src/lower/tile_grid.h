// The tiles of the GEMM that every rank computes: storage rows by columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lower/rect.h"
#include "lower/row_layout.h"

namespace stretto {

// A row of tiles. Ragged at the end of its chunk.
struct TileRow {
  int32_t row0 = 0, row1 = 0;
  int32_t chunk = 0;
};

class TileGrid {
 public:
  TileGrid() = default;
  // Tiles are cut at multiples of `block` columns too.
  TileGrid(const std::vector<RowChunk>& chunks, int32_t n, int32_t tile_m, int32_t tile_n,
           int32_t block);
  TileGrid(const std::vector<RowChunk>& chunks, int32_t n, int32_t tile_m, int32_t tile_n)
      : TileGrid(chunks, n, tile_m, tile_n, n) {}

  int32_t count() const { return num_rows() * cols_; }
  int32_t num_rows() const { return static_cast<int32_t>(rows_.size()); }
  int32_t cols() const { return cols_; }
  const TileRow& row(int32_t tile_row) const { return rows_[static_cast<size_t>(tile_row)]; }

  // Tiles are numbered row by row.
  int32_t row_of(int32_t tile) const { return tile / cols_; }
  int32_t col_of(int32_t tile) const { return tile % cols_; }
  const Rect& rect(int32_t tile) const { return rects_[static_cast<size_t>(tile)]; }
  int32_t row_at(int32_t storage_row) const;
  int32_t col_at(int32_t col) const {
    const int32_t in_block = (block_ + tile_n_ - 1) / tile_n_;
    return col / block_ * in_block + col % block_ / tile_n_;
  }

  template <typename Visit>
  void for_each_overlap(const Rect& rect, const Visit& visit) const {
    if (rect.empty()) return;
    const int32_t last_col = col_at(rect.col1 - 1);
    for (int32_t r = row_at(rect.row0); r < num_rows() && row(r).row0 < rect.row1; ++r) {
      for (int32_t c = col_at(rect.col0); c <= last_col; ++c) visit(r * cols_ + c);
    }
  }

  // The rectangles that tiles [first, last) make up, at most three: the end of a tile row, whole
  // tile rows, the beginning of one.
  template <typename Visit>
  void for_each_rect(int32_t first, int32_t last, const Visit& visit) const {
    while (first < last) {
      const bool whole_rows = col_of(first) == 0 && last - first >= cols_;
      const int32_t end =
          whole_rows ? last / cols_ * cols_ : std::min(last, (row_of(first) + 1) * cols_);
      const Rect begin = rect(first), back = rect(end - 1);
      visit(Rect{begin.row0, back.row1, begin.col0, back.col1});
      first = end;
    }
  }

 private:
  std::vector<TileRow> rows_;
  std::vector<Rect> rects_;  // by tile
  int32_t tile_n_ = 1, block_ = 1, cols_ = 0;
};

}  // namespace stretto
