// The kernels and waves that an order of tiles makes.
#pragma once

#include "lower/lowering.h"
#include "lower/tile_turns.h"

namespace stretto {

// Kernels end where a stream must know: before tiles that read what others send, after tiles
// whose data others await. Chunks that need neither join their neighbours.
void cut_kernels(const SegmentLowering& state, const TileTurns& turns, TileOrder& order);

// Says which wave every tile of every kernel belongs to.
void number_waves(const SegmentLowering& state, TileOrder& order);

}  // namespace stretto
