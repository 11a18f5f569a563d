// When the work on partial sums becomes possible.
#pragma once

#include <vector>

#include "lower/due_lists.h"
#include "lower/lowering.h"

namespace stretto {

// Own rows of a tile, where peers' pieces have several.
struct TileOfPiece {
  size_t piece;
  Rect part;
  int32_t tile;
};

struct DueReduces {
  explicit DueReduces(const SegmentLowering& state);

  DueLists copies;                              // pieces that movers send to slots
  DueLists reduces;                             // pieces, or numbers in `tiles`
  std::vector<std::vector<TileOfPiece>> tiles;  // by rank; where pieces are reduced tile by tile
};

// Pieces of copy engines are.
inline bool reduces_tile_by_tile(const SegmentLowering& state) {
  return state.stages_partials() && state.reduces_with_tiles();
}

}  // namespace stretto
