// Rows that the blocks of tiles norm, behind their last tile.
#pragma once

#include <cstdint>

#include "stretto/plan.h"

namespace stretto {

// Whether the GEMM kernel's blocks can make all tasks of a compute lane's instructions [begin,
// end), which stand behind the lane's tiles: norms of rows of the rank's own memory, with the sums
// that make them, or none at all. Waits may stand between; who awaits these rows does so at a
// boundary. Where a rank has a lane that does something else there, or rows and no tiles, a kernel
// of movers does it all.
bool are_rows_of_tiles(const Plan& plan, const Lane& lane, uint32_t begin, uint32_t end);

}  // namespace stretto
