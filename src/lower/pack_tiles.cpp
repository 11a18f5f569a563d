// pack_tiles: groups of waves, and where each of their tiles is stored.
#include "lower/lowering.h"
#include "lower/wave_groups.h"

namespace stretto {
namespace {

// The tiles of all shards by their place in their own shard: the first tile of every owner, then
// the second of every owner, ... in the swizzled order of the largest shard, which is the first.
// So every prefix has nearly the same number of tiles of each owner. -1: a shorter shard's gap.
std::vector<int32_t> interleave_shards(const TileGrid& grid, int owners, int32_t swizzle) {
  std::vector<int32_t> first_row(static_cast<size_t>(owners) + 1, grid.num_rows());
  for (int32_t r = grid.num_rows() - 1; r >= 0; --r) {
    first_row[static_cast<size_t>(grid.row(r).chunk)] = r;
  }
  for (size_t o = first_row.size() - 1; o-- > 0;) {
    first_row[o] = std::min(first_row[o], first_row[o + 1]);  // empty shards
  }
  const int32_t shard_rows = first_row[1];
  std::vector<int32_t> tiles;
  tiles.reserve(static_cast<size_t>(shard_rows) * static_cast<size_t>(grid.cols() * owners));
  for (int32_t sweep = 0; sweep < shard_rows; sweep += swizzle) {
    for (int32_t col = 0; col < grid.cols(); ++col) {
      for (int32_t r = sweep; r < std::min(sweep + swizzle, shard_rows); ++r) {
        for (size_t o = 0; o + 1 < first_row.size(); ++o) {
          const int32_t row = first_row[o] + r;
          tiles.push_back(row < first_row[o + 1] ? row * grid.cols() + col : -1);
        }
      }
    }
  }
  return tiles;
}

// Ends of the groups in steps of one tile of every owner.
std::vector<size_t> group_ends(const SegmentLowering& state, size_t steps) {
  const auto lanes = static_cast<size_t>(state.compute_lanes());
  const auto tasks = static_cast<size_t>(state.num_tasks());
  const auto splits = static_cast<size_t>(state.splits());
  std::vector<size_t> ends;
  size_t waves = 0, end = 0;
  for (const int size :
       wave_groups(state.schedule, static_cast<int>((tasks + lanes - 1) / lanes))) {
    waves += static_cast<size_t>(size);
    end = std::min(
        steps,
        std::max(end + 1, waves * lanes / (splits * static_cast<size_t>(state.shards.ranks))));
    if (ends.empty() || end > ends.back()) ends.push_back(end);
  }
  ends.back() = steps;
  return ends;
}

}  // namespace

void pack_tiles(SegmentLowering& state) {
  if (!state.pattern.packs) return;
  const TileGrid& grid = state.grid;
  const auto owners = static_cast<size_t>(state.shards.ranks);
  const std::vector<int32_t> order =
      interleave_shards(grid, state.shards.ranks, state.schedule.swizzle);

  Packing& packing = state.packing;
  packing.wide = grid.rect(0).cols();
  const int32_t last_cols = grid.rect(grid.cols() - 1).cols();
  packing.narrow = last_cols < packing.wide ? last_cols : 0;
  packing.group_of.resize(static_cast<size_t>(grid.count()));
  packing.row_of = packing.sequence = packing.group_of;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= 0) packing.sequence[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }

  std::vector<int32_t> sums_rows(owners, 0);
  size_t step = 0;
  for (const size_t end : group_ends(state, order.size() / owners)) {
    std::vector<PackedShare>& group = packing.groups.emplace_back(owners);
    for (size_t owner = 0; owner < owners; ++owner) {
      PackedShare& share = group[owner];
      share.row0 = packing.rows;
      share.sums_row = sums_rows[owner];
      auto stack = [&](bool narrow) {
        for (size_t i = step; i < end; ++i) {
          const int32_t tile = order[i * owners + owner];
          if (tile < 0 || (grid.rect(tile).cols() < packing.wide) != narrow) continue;
          packing.row_of[static_cast<size_t>(tile)] = packing.rows;
          packing.group_of[static_cast<size_t>(tile)] =
              static_cast<int32_t>(packing.groups.size()) - 1;
          packing.rows += grid.rect(tile).rows();
          share.tiles.push_back(tile);
        }
      };
      stack(false);
      share.narrow_row = packing.rows;
      stack(true);
      share.row1 = packing.rows;
      sums_rows[owner] += share.row1 - share.row0;
    }
    step = end;
  }
  packing.sums_rows = *std::max_element(sums_rows.begin(), sums_rows.end());
}

}  // namespace stretto
