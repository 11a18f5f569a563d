// Where tiles and pieces go in the slots of who reduces them.
#pragma once

#include <span>
#include <vector>

#include "lower/lowering.h"

namespace stretto {

class SlotPlaces {
 public:
  explicit SlotPlaces(const SegmentLowering& state);

  // The slot of `source` for `rect` in the memory of `at`, who reduces it. `piece` holds it or is,
  // where ranks own rows, another of the same owner.
  Region slot(const Piece& piece, const Rect& rect, int at, int source) const {
    const int32_t down = source * state_.pieces.slot_rows + piece.slot_row - piece.rect.row0;
    return region_of(rect.moved(down, piece.slot_col - piece.rect.col0), state_.buffers.slots, at);
  }
  // The slots of source 0 that a tile goes to when it is stored straight into slots; none where
  // every rank has one.
  std::span<const Region> of_tile(int32_t tile) const {
    const auto t = static_cast<size_t>(tile);
    return std::span(slots_).subspan(first_slot_[t], first_slot_[t + 1] - first_slot_[t]);
  }
  // The only piece of a tile, where no rank owns rows.
  const Piece& piece_of(int32_t tile) const {
    return state_.pieces.all[piece_of_tile_[static_cast<size_t>(tile)]];
  }
  // What others than `rank` reduce, where no rank owns rows: runs of tiles in a row, joined with
  // the same ones of the next rows.
  std::vector<Rect> of_others(int rank) const;

 private:
  void add_slots(int32_t tile);

  const SegmentLowering& state_;
  std::vector<size_t> piece_of_tile_;
  std::vector<size_t> first_slot_;  // by tile, in slots_; one more at the end
  std::vector<Region> slots_;
};

}  // namespace stretto
