// cut_tiles: the tiles of the GEMM that every rank computes.
#include "lower/lowering.h"

namespace stretto {

TileGrid::TileGrid(const std::vector<RowChunk>& chunks, int32_t n, int32_t tile_m, int32_t tile_n)
    : tile_n_(tile_n), cols_((n + tile_n - 1) / tile_n) {
  for (size_t c = 0; c < chunks.size(); ++c) {
    for (int32_t row = chunks[c].row0; row < chunks[c].row1; row += tile_m) {
      rows_.push_back({row, std::min(row + tile_m, chunks[c].row1), static_cast<int32_t>(c)});
    }
  }
  rects_.reserve(static_cast<size_t>(count()));
  for (const TileRow& row : rows_) {
    for (int32_t col0 = 0; col0 < n; col0 += tile_n) {
      rects_.push_back({row.row0, row.row1, col0, std::min(col0 + tile_n, n)});
    }
  }
}

int32_t TileGrid::row_at(int32_t storage_row) const {
  const auto at = std::upper_bound(rows_.begin(), rows_.end(), storage_row,
                                   [](int32_t row, const TileRow& r) { return row < r.row1; });
  return static_cast<int32_t>(at - rows_.begin());
}

void cut_tiles(Draft& draft) {
  Lowering& state = lowering(draft);
  std::vector<RowChunk> chunks = state.layout.chunks;
  if (state.schedule.rows == RowCount::bucket) {  // rows of one owner each
    chunks.clear();
    for (const RowSegment& segment : state.layout.segments) {
      chunks.push_back({segment.row0, segment.row1});
    }
  }
  state.grid = TileGrid(chunks, static_cast<int32_t>(state.op.local_n()), state.schedule.tile_m,
                        state.schedule.tile_n);
}

}  // namespace stretto
