// Reduces that the GEMM kernel does itself: of a tile that its lane has just computed.
#pragma once

#include <cstdint>

#include "stretto/plan.h"

namespace stretto::cuda {

// The reduce that adds other ranks' sums to the tile of the gemm at `at`: it follows with nothing
// but waits between, and reads what the gemm writes, which lies at equal distances from the sums of
// the others.
struct TileSum {
  uint32_t position = 0;  // of the reduce; 0: there is none, or a mover has to do it
  uint32_t own_at = 0;    // which of its sources is the tile
  int32_t step_rows = 0;  // of the buffer, from source to source

  explicit operator bool() const { return position != 0; }
};
TileSum tile_sum_of(const Plan& plan, const Lane& lane, uint32_t at);

// Sources beside the tile itself that every such reduce of the plan adds; 0 when there is none.
int sources_of_tile_sums(const Plan& plan);

}  // namespace stretto::cuda
