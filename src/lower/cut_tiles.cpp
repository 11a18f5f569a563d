// cut_tiles: the tiles of the GEMM that every rank computes.
#include "lower/lowering.h"

namespace stretto {

TileGrid::TileGrid(const std::vector<RowChunk>& chunks, int32_t n, int32_t tile_m, int32_t tile_n,
                   int32_t block)
    : tile_n_(tile_n), block_(block) {
  const auto tiles_in = [&](int32_t cols) { return (cols + tile_n - 1) / tile_n; };
  cols_ = n / block * tiles_in(block) + tiles_in(n % block);
  for (size_t c = 0; c < chunks.size(); ++c) {
    for (int32_t row = chunks[c].row0; row < chunks[c].row1; row += tile_m) {
      rows_.push_back({row, std::min(row + tile_m, chunks[c].row1), static_cast<int32_t>(c)});
    }
  }
  rects_.reserve(static_cast<size_t>(count()));
  for (const TileRow& row : rows_) {
    for (int32_t first = 0; first < n; first += block) {
      const int32_t end = std::min(n, first + block);
      for (int32_t col0 = first; col0 < end; col0 += tile_n) {
        rects_.push_back({row.row0, row.row1, col0, std::min(col0 + tile_n, end)});
      }
    }
  }
}

int32_t TileGrid::row_at(int32_t storage_row) const {
  const auto at = std::upper_bound(rows_.begin(), rows_.end(), storage_row,
                                   [](int32_t row, const TileRow& r) { return row < r.row1; });
  return static_cast<int32_t>(at - rows_.begin());
}

namespace {

int32_t tile_rows(const std::vector<RowChunk>& chunks, int32_t tile_m) {
  int32_t rows = 0;
  for (const RowChunk& chunk : chunks) rows += (chunk.row1 - chunk.row0 + tile_m - 1) / tile_m;
  return rows;
}

int64_t waves(int32_t rows_of_tiles, const SegmentLowering& state) {
  const int64_t across = (state.op.local_n() + state.tile_cols() - 1) / state.tile_cols();
  const int64_t sms = std::max(1, state.machine.sms - state.comm_lanes());
  return (rows_of_tiles * across * state.schedule.split_k + sms - 1) / sms;
}

// A tile with rows of two owners is stored in parts and waits for both; where it is added to, the
// owners wait for each other. So tiles are cut at owners where that makes them no more. Of sums,
// which lose most by that, also where more tiles fill no further wave; but not where shards are
// smaller than a tile, whose B would be multiplied by few rows many times over. Collectives tell
// tiles by their chunk.
std::vector<RowChunk> chunks_of_tiles(const SegmentLowering& state) {
  const std::vector<RowChunk>& chunks = state.layout.chunks;
  const bool serves = state.schedule.rows == RowCount::bucket;
  if (!serves && (chunks.size() != 1 || state.schedule.mover == Mover::nccl)) return chunks;
  std::vector<RowChunk> of_owners;
  for (const RowSegment& segment : state.layout.segments) {
    of_owners.push_back({segment.row0, segment.row1});
  }
  const int32_t tile_m = state.schedule.tile_m;
  const int32_t cut = tile_rows(of_owners, tile_m), uncut = tile_rows(chunks, tile_m);
  const bool is_free = state.pattern.adds_slots && state.shards.block() >= tile_m &&
                       waves(cut, state) <= waves(uncut, state);
  return serves || cut <= uncut || is_free ? of_owners : chunks;
}

}  // namespace

void cut_tiles(SegmentLowering& state) {
  const auto n = static_cast<int32_t>(state.op.local_n());
  const bool is_dealt = state.pattern.deals_columns();
  state.grid = TileGrid(chunks_of_tiles(state), n, state.schedule.tile_m, state.tile_cols(),
                        is_dealt ? state.cols_each() : n);
}

}  // namespace stretto
