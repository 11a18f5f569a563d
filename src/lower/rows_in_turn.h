// Rows behind a product's tiles, as its lanes take them.
#pragma once

#include <vector>

#include "lower/lowering.h"

namespace stretto {

// Rows of a rank, counted from its first, and the compute lane that takes them behind its last
// tile.
struct RowsOfLane {
  int32_t lane = 0;
  int32_t row0 = 0, row1 = 0;
};

// All rows that the rank has sums of, dealt to the product's lanes in the order in which they are
// whole: first those of which the last wave makes nothing, for these can be taken while the last
// wave's sums cross the links. Nobody's rows are of two rows of tiles, so that a lane awaits no
// more than these.
std::vector<RowsOfLane> rows_in_turn(const SegmentLowering& product, int rank);

}  // namespace stretto
