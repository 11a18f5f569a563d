#include "lower/slot_places.h"

#include <algorithm>

namespace stretto {

SlotPlaces::SlotPlaces(const SegmentLowering& state)
    : state_(state), piece_of_tile_(static_cast<size_t>(state.grid.count())) {
  for (size_t p = 0; p < state.pieces.all.size(); ++p) {
    for (const int32_t tile : state.pieces.tiles_of(p)) {
      piece_of_tile_[static_cast<size_t>(tile)] = p;
    }
  }
  for (int32_t tile = 0; tile < state.grid.count(); ++tile) {
    first_slot_.push_back(slots_.size());
    if (!state.stages_partials()) add_slots(tile);
  }
  first_slot_.push_back(slots_.size());
}

void SlotPlaces::add_slots(int32_t tile) {
  const Rect& rect = state_.grid.rect(tile);
  if (!state_.ranks_own_rows()) {
    const Piece& piece = piece_of(tile);
    if (piece.owner != Piece::kEveryone) slots_.push_back(slot(piece, rect, piece.owner, 0));
    return;
  }
  const int last = state_.shards.owner(rect.row1 - 1);
  for (int owner = state_.shards.owner(rect.row0); owner <= last; ++owner) {
    const auto begin = static_cast<int32_t>(state_.shards.begin(owner));
    const auto end = static_cast<int32_t>(state_.shards.end(owner));
    const Rect rows = intersect(rect, {begin, end, rect.col0, rect.col1});
    const auto first = static_cast<size_t>(state_.pieces.first[static_cast<size_t>(owner)]);
    slots_.push_back(slot(state_.pieces.all[first], rows, owner, 0));
  }
}

std::vector<Rect> SlotPlaces::of_others(int rank) const {
  const TileGrid& grid = state_.grid;
  std::vector<Rect> rects, row;
  size_t above = 0;  // where those of the row before begin
  auto same_columns = [](const Rect& a, const Rect& b) {
    return a.row1 == b.row0 && a.col0 == b.col0 && a.col1 == b.col1;
  };
  for (int32_t r = 0; r < grid.num_rows(); ++r) {
    row.clear();
    for (int32_t tile = r * grid.cols(); tile < (r + 1) * grid.cols(); ++tile) {
      if (piece_of(tile).owner == rank) continue;
      const Rect& rect = grid.rect(tile);
      if (!row.empty() && row.back().col1 == rect.col0) {
        row.back().col1 = rect.col1;
      } else {
        row.push_back(rect);
      }
    }
    if (std::equal(rects.begin() + static_cast<std::ptrdiff_t>(above), rects.end(), row.begin(),
                   row.end(), same_columns)) {
      for (size_t i = above; i < rects.size(); ++i) rects[i].row1 = grid.row(r).row1;
    } else {
      above = rects.size();
      rects.insert(rects.end(), row.begin(), row.end());
    }
  }
  return rects;
}

}  // namespace stretto
