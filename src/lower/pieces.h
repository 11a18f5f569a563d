// Pieces: what is communicated at once, cut by the schedule's granularity.
//
// A piece of a gather is a block of one shard's rows. A piece of a reduction is a block of the
// output that one rank (its owner) reduces; with one-shot every rank reduces every piece.
#pragma once

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
};

// Where no rank owns rows, ranks own runs of tiles in row-major order, equally many to within one:
// that shares the work for any number of rows, and every tile has one owner.
struct TileRun {
  int32_t first = 0, last = 0;
};
inline TileRun owned_tiles(int64_t count, int owner, int ranks) {
  return {static_cast<int32_t>(count * owner / ranks),
          static_cast<int32_t>(count * (owner + 1) / ranks)};
}

struct Pieces {
  std::vector<Piece> all;      // by owner and index
  int32_t indices = 1;         // no index is as large
  std::vector<int32_t> first;  // by owner: its first piece; one more at the end

  // slot_reduce: every owner's slots are laid out like the output, from this row on.
  std::vector<int32_t> share_row;
  int32_t slot_rows = 0;  // rows that each source has in an owner's slots

  // Tiles that overlap piece p.
  std::span<const int32_t> tiles_of(size_t p) const {
    return std::span(tiles).subspan(tile_starts[p], tile_starts[p + 1] - tile_starts[p]);
  }
  std::vector<size_t> tile_starts;
  std::vector<int32_t> tiles;
};

}  // namespace stretto
