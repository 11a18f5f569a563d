// Packed storage of waves: the tiles of a group lie together, so that a collective can move the
// group while later tiles are computed.
//
// Groups follow each other; inside a group owner by owner; inside an owner first the tiles of full
// width, then the narrow ones of the last column, in the order in which they are computed. Tiles
// are stacked by their own heights. So each owner has at most two regions in a group, a full-width
// and a narrow one, whatever is ragged.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/rect.h"

namespace stretto {

// One owner's rows of a group: [row0, narrow_row) full width, [narrow_row, row1) narrow.
struct PackedShare {
  int32_t row0 = 0, narrow_row = 0, row1 = 0;
  int32_t sums_row = 0;        // where its sums begin in the owner's `sums`
  std::vector<int32_t> tiles;  // in storage order
};

struct Packing {
  int32_t wide = 0, narrow = 0;  // columns of the two kinds of tile; narrow may be 0
  int32_t rows = 0;              // of all groups
  int32_t sums_rows = 0;         // the most that one owner has
  std::vector<std::vector<PackedShare>> groups;  // by group and owner
  std::vector<int32_t> group_of;                 // by tile
  std::vector<int32_t> row_of;                   // by tile: its first row in storage
  std::vector<int32_t> sequence;  // by tile: position in the order that groups follow
};

}  // namespace stretto
