// The tile shape that presets start from.
#pragma once

#include "stretto/machine.h"
#include "stretto/segment.h"

namespace stretto {

struct TileShape {
  int m = 128, n = 256;
  bool operator==(const TileShape&) const = default;
};

// 128x256 feeds an SM best. Smaller problems take the first of its halvings that
//   1. is no tile of twice the rows or columns that the local GEMM has,
//   2. has no twice the rows of a shard, down to 64 rows (tiles that straddle owners wait for
//   both),
//   3. gives each of `compute_sms` a tile, halving the longer side (columns first), down to 64x64.
TileShape default_tile(const Segment& op, int compute_sms);

}  // namespace stretto
