// Pieces: what is communicated at once, cut by the schedule's granularity.
//
// A piece of a gather is a block of one shard's rows. A piece of a reduction is a block of the
// output that one rank (its owner) reduces; with one-shot every rank reduces every piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lower/rect.h"

namespace stretto {

struct Piece {
  static constexpr int32_t kEveryone = -1;

  Rect rect;          // storage rows and columns
  int32_t owner = 0;  // who holds or reduces it
  int32_t index = 0;  // the how-manieth of its owner's chunks, slices or stripes it belongs to
  // slot_reduce: where it begins in the owner's slot for source 0.
  int32_t slot_row = 0, slot_col = 0;
};

struct Pieces {
  std::vector<Piece> all;      // by owner and index
  std::vector<int32_t> first;  // by owner: its first piece; one more at the end
  int32_t indices = 1;         // no index is as large

  // slot_reduce: rows that each source has in an owner's slots, and columns of them.
  int32_t slot_rows = 0, slot_cols = 0;

  // Tiles that overlap piece p.
  std::span<const int32_t> tiles_of(size_t p) const {
    return std::span(tiles).subspan(tile_starts[p], tile_starts[p + 1] - tile_starts[p]);
  }
  std::vector<size_t> tile_starts;
  std::vector<int32_t> tiles;

  void begin_owner() { first.push_back(static_cast<int32_t>(all.size())); }
  void add(const Piece& piece) {
    all.push_back(piece);
    indices = std::max(indices, piece.index + 1);
    slot_rows = std::max(slot_rows, piece.slot_row + piece.rect.rows());
    slot_cols = std::max(slot_cols, piece.slot_col + piece.rect.cols());
  }
};

}  // namespace stretto
