// Tile shape and SMs for communication of a fused schedule, by what they cost on the machine.
#pragma once

#include "schedule/default_tile.h"

namespace stretto {

struct FusedPoint {
  TileShape tile;
  int comm_sms = 0;
};

// The time of a gather is that of its waves of tiles on the SMs that are left, or of its pushes and
// one tile behind them; of a reduction (which takes no SMs), that of its waves and of sending the
// last one, or of sending everything. The smallest wins; without rates, or where shards are smaller
// than a tile, default_tile() decides.
FusedPoint fused_point(const Segment& op, const Machine& machine, int usual_comm_sms);

}  // namespace stretto
