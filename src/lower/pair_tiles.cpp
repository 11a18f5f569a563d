#include "lower/pair_tiles.h"

#include "stretto/error.h"

namespace stretto {
namespace {

// The partner of each tile row.
std::vector<int32_t> partners(const TileGrid& grid, const std::vector<int32_t>& tiles) {
  std::vector<int32_t> partner(static_cast<size_t>(grid.num_rows()));
  int32_t earlier = -1;  // the tile row that has none yet
  for (const int32_t tile : tiles) {
    if (grid.col_of(tile) != 0) continue;
    const int32_t row = grid.row_of(tile);
    if (earlier >= 0) {
      partner[static_cast<size_t>(earlier)] = row;
      partner[static_cast<size_t>(row)] = earlier;
    }
    earlier = earlier < 0 ? row : -1;
  }
  STRETTO_ASSERT(earlier < 0, "a legal schedule pairs all tile rows");
  return partner;
}

}  // namespace

std::vector<int32_t> pair_tiles(const TileGrid& grid, const std::vector<int32_t>& tiles) {
  const std::vector<int32_t> partner = partners(grid, tiles);
  std::vector<int32_t> paired;
  paired.reserve(tiles.size());
  std::vector<bool> met(tiles.size(), false);
  for (const int32_t tile : tiles) {
    const int32_t other =
        partner[static_cast<size_t>(grid.row_of(tile))] * grid.cols() + grid.col_of(tile);
    met[static_cast<size_t>(tile)] = true;
    if (!met[static_cast<size_t>(other)]) continue;
    paired.push_back(other);
    paired.push_back(tile);
  }
  return paired;
}

}  // namespace stretto
