// Shares of an output whose rows no rank owns (gemm-ar): who reduces which tiles.
//
// Whole tiles are shared, not rows: so a tile goes to one rank, for any number of rows.
#pragma once

#include "lower/pieces.h"
#include "lower/tile_grid.h"
#include "stretto/schedule.h"

namespace stretto {

// Tile rows of a slice, in a shard of `tile_rows`: one sweep of the tile order, whose tiles are
// done (or needed) together, but at least four slices a shard where it has the rows, for else
// nothing overlaps.
int32_t slice_rows(const Schedule& schedule, int32_t tile_rows);

// Every rank reduces everything.
void share_with_everyone(const TileGrid& grid, const Schedule& schedule, Pieces& pieces);

// Each rank owns one run of tiles in row-major order, equally many to within one: large pieces for
// large copies.
void share_runs(const TileGrid& grid, const Schedule& schedule, int ranks, Pieces& pieces);

// Parts of tile rows are dealt to the ranks in turn, in the order in which a plain sweep computes
// them, about eight or more to each. So at any time tiles for all ranks are being computed, and
// sums go out while later tiles are.
void share_in_turn(const TileGrid& grid, const Schedule& schedule, int ranks, Pieces& pieces);

}  // namespace stretto
