// Which tiles the two blocks of a cluster compute side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/tile_grid.h"

namespace stretto {

// `tiles`, all of the grid in the order in which a rank comes to them, as pairs of one column. Tile
// rows are paired as the rank comes to them, the same in every column, and a pair comes where the
// later of its tiles would: when the rows of both are there. The number of tile rows is even.
std::vector<int32_t> pair_tiles(const TileGrid& grid, const std::vector<int32_t>& tiles);

}  // namespace stretto
