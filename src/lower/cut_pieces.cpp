// cut_pieces: what is communicated at once, and which tiles each piece overlaps.
#include "lower/lowering.h"

namespace stretto {
namespace {

// Tile rows of a slice: one sweep of the tile order, whose tiles are done (or needed) together, but
// at least four slices a shard where it has the rows, for else nothing overlaps.
int32_t slice_rows(const Schedule& schedule, int32_t shard_tile_rows) {
  return std::min(schedule.swizzle, std::max(1, (shard_tile_rows + 3) / 4));
}

class PieceCutter {
 public:
  explicit PieceCutter(Lowering& state)
      : state_(state), grid_(state.grid), granularity_(state.schedule.granularity) {}

  // A piece for each segment of storage: what one owner has in one collective.
  void cut_segments(int32_t cols) {
    for (int owner = 0; owner < state_.shards.ranks; ++owner) {
      begin_owner();
      for (const RowSegment& s : state_.layout.segments) {
        if (s.owner == owner) add({s.row0, s.row1, 0, cols}, owner, s.chunk);
      }
    }
  }

  // Blocks of every shard's rows. Tiles of a gather read whole stripes, those of a reduction write
  // blocks of columns too.
  void cut_shards(int32_t cols) {
    const auto tile_rows = [&](int64_t rows) {
      return static_cast<int32_t>((rows + state_.schedule.tile_m - 1) / state_.schedule.tile_m);
    };
    const int32_t slice = slice_rows(state_.schedule, tile_rows(state_.shards.block()));
    for (int owner = 0; owner < state_.shards.ranks; ++owner) {
      begin_owner();
      const auto begin = static_cast<int32_t>(state_.shards.begin(owner));
      const auto end = static_cast<int32_t>(state_.shards.end(owner));
      if (begin == end) continue;
      if (granularity_ == Granularity::tile || granularity_ == Granularity::slice) {
        const int32_t step = granularity_ == Granularity::tile ? 1 : slice;
        const int32_t first = grid_.row_at(begin), last = grid_.row_at(end - 1);
        for (int32_t row = first; row <= last; row += step) {
          const Rect band{std::max(begin, grid_.row(row).row0),
                          std::min(end, grid_.row(std::min(row + step - 1, last)).row1), 0, cols};
          cut_band(band, owner, (row - first) / step);
        }
      } else {
        const std::vector<int32_t>& cuts = state_.shard_cuts;
        for (size_t c = 0; c + 1 < cuts.size() && begin + cuts[c] < end; ++c) {
          add({begin + cuts[c], std::min(end, begin + cuts[c + 1]), 0, cols}, owner,
              static_cast<int32_t>(c));
        }
      }
    }
  }

  void cut_tile_runs() {
    for (int owner = 0; owner < state_.op.ranks; ++owner) {
      begin_owner();
      const TileRun run = owned_tiles(grid_.count(), owner, state_.op.ranks);
      cut_tile_run(run.first, run.last, owner);
    }
  }
  void cut_tiles_for_everyone() {
    begin_owner();
    cut_tile_run(0, grid_.count(), Piece::kEveryone);
  }

  void find_tiles() {
    Pieces& pieces = state_.pieces;
    pieces.tile_starts.assign(1, 0);
    for (const Piece& piece : pieces.all) {
      Rect rect = piece.rect;
      if (state_.gathers())
        rect.col1 = static_cast<int32_t>(state_.op.local_n());  // of K until here
      grid_.for_each_overlap(rect, [&](int32_t tile) { pieces.tiles.push_back(tile); });
      pieces.tile_starts.push_back(pieces.tiles.size());
    }
    pieces.first.push_back(static_cast<int32_t>(pieces.all.size()));
  }

 private:
  void begin_owner() {
    state_.pieces.first.push_back(static_cast<int32_t>(state_.pieces.all.size()));
  }

  void add(const Rect& rect, int32_t owner, int32_t index) {
    state_.pieces.all.push_back({rect, owner, index});
    state_.pieces.indices = std::max(state_.pieces.indices, index + 1);
  }

  // A band of rows, whole or (granularity tile, reductions) at the edges of tiles.
  void cut_band(const Rect& band, int32_t owner, int32_t index) {
    if (granularity_ != Granularity::tile || state_.gathers()) return add(band, owner, index);
    grid_.for_each_overlap(
        band, [&](int32_t tile) { add(intersect(band, grid_.rect(tile)), owner, index); });
  }

  void cut_tile_run(int32_t first, int32_t last, int32_t owner) {
    if (first == last) return;
    const int32_t row0 = grid_.row_of(first), row1 = grid_.row_of(last - 1) + 1;
    switch (granularity_) {
      case Granularity::tile:
        for (int32_t tile = first; tile < last; ++tile) {
          add(grid_.rect(tile), owner, grid_.row_of(tile) - row0);
        }
        break;
      case Granularity::slice: {
        const int32_t step = slice_rows(state_.schedule, row1 - row0);
        for (int32_t row = row0; row < row1; row += step) {
          add_run(std::max(first, row * grid_.cols()), std::min(last, (row + step) * grid_.cols()),
                  owner, (row - row0) / step);
        }
        break;
      }
      default: {
        const std::vector<int32_t> cuts = cut_rows(
            last - first, std::vector<int>(static_cast<size_t>(state_.schedule.chunks), 1), 1);
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
          add_run(first + cuts[c], first + cuts[c + 1], owner, static_cast<int32_t>(c));
        }
      }
    }
  }

  void add_run(int32_t first, int32_t last, int32_t owner, int32_t index) {
    grid_.for_each_rect(first, last, [&](const Rect& rect) { add(rect, owner, index); });
  }

  Lowering& state_;
  const TileGrid& grid_;
  const Granularity granularity_;
};

// The rows of the output that an owner's slots must have room for.
void lay_out_slots(Lowering& state) {
  Pieces& pieces = state.pieces;
  for (size_t o = 0; o + 1 < pieces.first.size(); ++o) {
    int32_t row0 = INT32_MAX, row1 = 0;
    for (int32_t p = pieces.first[o]; p < pieces.first[o + 1]; ++p) {
      const Rect& rect = pieces.all[static_cast<size_t>(p)].rect;
      row0 = std::min(row0, rect.row0);
      row1 = std::max(row1, rect.row1);
    }
    pieces.share_row.push_back(row1 > 0 ? row0 : 0);
    pieces.slot_rows = std::max(pieces.slot_rows, row1 - pieces.share_row.back());
  }
}

}  // namespace

void cut_pieces(Draft& draft) {
  Lowering& state = lowering(draft);
  const auto n = static_cast<int32_t>(state.op.n);
  PieceCutter cutter(state);
  switch (state.pattern) {
    case Pattern::local:
    case Pattern::packed_reduce:
      return;
    case Pattern::push_gather:
      cutter.cut_shards(static_cast<int32_t>(state.op.k));
      break;
    case Pattern::nccl_gather:
      cutter.cut_segments(static_cast<int32_t>(state.op.k));
      break;
    case Pattern::slot_reduce:
      if (state.ranks_own_rows()) {
        cutter.cut_shards(n);
      } else if (state.schedule.reduction == Reduction::one_shot) {
        cutter.cut_tiles_for_everyone();
      } else {
        cutter.cut_tile_runs();
      }
      break;
    case Pattern::nccl_reduce:
      cutter.cut_segments(n);
      break;
  }
  cutter.find_tiles();
  lay_out_slots(state);
}

}  // namespace stretto
