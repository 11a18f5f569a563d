// cut_pieces: what is communicated at once, and which tiles each piece overlaps.
#include "lower/lowering.h"
#include "lower/tile_shares.h"

namespace stretto {
namespace {

// A piece for each segment of storage: what one owner has in one collective.
void cut_segments(SegmentLowering& state, int32_t cols) {
  for (int owner = 0; owner < state.shards.ranks; ++owner) {
    state.pieces.begin_owner();
    for (const RowSegment& s : state.layout.segments) {
      if (s.owner == owner) state.pieces.add({{s.row0, s.row1, 0, cols}, owner, s.chunk, 0, 0});
    }
  }
}

// Blocks of every shard's rows. Tiles of a gather read whole stripes; those of a reduction write
// blocks of columns, which at granularity tile are pieces of their own.
class ShardCutter {
 public:
  ShardCutter(SegmentLowering& state, int32_t cols)
      : state_(state), granularity_(state.schedule.granularity), cols_(cols) {}

  void cut() {
    for (owner_ = 0; owner_ < state_.shards.ranks; ++owner_) {
      state_.pieces.begin_owner();
      begin_ = static_cast<int32_t>(state_.shards.begin(owner_));
      end_ = static_cast<int32_t>(state_.shards.end(owner_));
      if (begin_ == end_) continue;
      if (granularity_ == Granularity::tile || granularity_ == Granularity::slice) {
        cut_at_tile_rows();
      } else {
        cut_at_chunks();
      }
    }
  }

 private:
  void cut_at_tile_rows() {
    const TileGrid& grid = state_.grid;
    const int32_t tile_m = state_.schedule.tile_m;
    const auto block = static_cast<int32_t>(state_.shards.block());
    const int32_t step = granularity_ == Granularity::tile
                             ? 1
                             : slice_rows(state_.schedule, (block + tile_m - 1) / tile_m);
    const int32_t first = grid.row_at(begin_), last = grid.row_at(end_ - 1);
    for (int32_t row = first; row <= last; row += step) {
      add_band(std::max(begin_, grid.row(row).row0),
               std::min(end_, grid.row(std::min(row + step - 1, last)).row1), (row - first) / step);
    }
  }

  void cut_at_chunks() {
    const std::vector<int32_t>& cuts = state_.shard_cuts;
    for (size_t c = 0; c + 1 < cuts.size() && begin_ + cuts[c] < end_; ++c) {
      add({begin_ + cuts[c], std::min(end_, begin_ + cuts[c + 1]), 0, cols_},
          static_cast<int32_t>(c));
    }
  }

  void add_band(int32_t row0, int32_t row1, int32_t index) {
    const Rect band{row0, row1, 0, cols_};
    if (granularity_ != Granularity::tile || state_.gathers()) return add(band, index);
    state_.grid.for_each_overlap(
        band, [&](int32_t tile) { add(intersect(band, state_.grid.rect(tile)), index); });
  }

  void add(const Rect& rect, int32_t index) {
    state_.pieces.add({rect, owner_, index, rect.row0 - begin_, rect.col0});
  }

  SegmentLowering& state_;
  const Granularity granularity_;
  const int32_t cols_;
  int owner_ = 0;
  int32_t begin_ = 0, end_ = 0;  // rows of the owner's shard
};

void share_tiles(SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  if (schedule.reduction == Reduction::one_shot) {
    share_with_everyone(state.grid, schedule, state.pieces);
  } else if (schedule.granularity == Granularity::tile ||
             schedule.granularity == Granularity::slice) {
    share_in_turn(state.grid, schedule, state.op.ranks, state.pieces);
  } else {
    share_runs(state.grid, schedule, state.op.ranks, state.pieces);
  }
}

void find_tiles(SegmentLowering& state) {
  Pieces& pieces = state.pieces;
  pieces.tile_starts.assign(1, 0);
  for (const Piece& piece : pieces.all) {
    Rect rect = piece.rect;
    if (state.gathers()) {  // columns are of K until here
      rect.col0 = 0;
      rect.col1 = static_cast<int32_t>(state.op.local_n());
    }
    state.grid.for_each_overlap(rect, [&](int32_t tile) { pieces.tiles.push_back(tile); });
    pieces.tile_starts.push_back(pieces.tiles.size());
  }
  pieces.begin_owner();  // the end of the last one
}

}  // namespace

void cut_own_rows(SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  const TileGrid& grid = state.grid;
  std::vector<int32_t> cuts = state.shard_cuts;
  if (schedule.granularity == Granularity::tile || schedule.granularity == Granularity::slice) {
    const int32_t rows = grid.num_rows();
    const int32_t step = schedule.granularity == Granularity::tile ? 1 : slice_rows(schedule, rows);
    cuts.assign(1, 0);
    for (int32_t row = 0; row < rows; row += step) {
      cuts.push_back(grid.row(std::min(row + step, rows) - 1).row1);
    }
  }
  const bool by_tiles = schedule.granularity == Granularity::tile && state.pattern.deals_columns();
  for (int owner = 0; owner < state.op.ranks; ++owner) {
    const int32_t col0 = owner * state.cols_each();
    state.pieces.begin_owner();
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Rect band{cuts[i], cuts[i + 1], col0, col0 + state.cols_of(owner)};
      const auto index = static_cast<int32_t>(i);
      if (by_tiles) {
        grid.for_each_overlap(band, [&](int32_t tile) {
          state.pieces.add({grid.rect(tile), owner, index, 0, 0});
        });
      } else {
        state.pieces.add({band, owner, index, 0, 0});
      }
    }
  }
}

void cut_input_of_shards(SegmentLowering& state) {
  ShardCutter(state, static_cast<int32_t>(state.op.k)).cut();
}

void cut_result_of_shards(SegmentLowering& state) {
  if (!state.ranks_own_rows()) return share_tiles(state);
  ShardCutter(state, static_cast<int32_t>(state.op.n)).cut();
}

void cut_columns_of_shards(SegmentLowering& state) {
  ShardCutter(state, static_cast<int32_t>(state.op.local_n())).cut();
}

void cut_input_of_chunks(SegmentLowering& state) {
  cut_segments(state, static_cast<int32_t>(state.op.k));
}

void cut_result_of_chunks(SegmentLowering& state) {
  cut_segments(state, static_cast<int32_t>(state.op.local_n()));
}

void cut_pieces(SegmentLowering& state) {
  if (state.pattern.cut_pieces == nullptr) return;
  state.pattern.cut_pieces(state);
  find_tiles(state);
}

}  // namespace stretto
