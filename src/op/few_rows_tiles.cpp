#include "op/few_rows_tiles.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/ceil_div.h"
#include "stretto/device/few_rows_task.h"

namespace stretto {
namespace {

// Of a block of K in a thread block: of the tensor cores, of shared memory, which loads write and
// wgmma reads at 128 B a cycle, and of the L2 cache, which gives all SMs some 8 KB a cycle. Where
// two consumers take turns at narrow tiles, each has half of the stages. Fitted to 421 tiles of 18
// shapes: what is chosen is 3 % behind the best of them in the mean, 20 % at worst; by constants of
// half of the shapes that of the others was 5 and 25 % behind (docs/notes/few-rows.md).
double cycles_of_stage(const FewRowsTile& tile, int64_t blocks) {
  constexpr double kTensor = 2.6, kShared = 128, kL2 = 8000, kSmReads = 24, kLeast = 200;
  constexpr double kRowBytes = 2.0 * device::kTileK, kNarrow = 1.1;
  const int consumers = tile.columns > device::kFewRowsColumns ? 2 : 1;
  const double loaded = kRowBytes * (tile.columns + tile.rows);
  const double read = kRowBytes * consumers * (device::kFewRowsColumns + tile.rows);
  const double weights = kRowBytes * tile.columns / kSmReads;
  const double narrow = consumers == 1 ? kNarrow : 1;
  return narrow *
         std::max({kLeast, weights, kTensor * consumers * tile.rows, (loaded + read) / kShared,
                   loaded / tile.sharing * static_cast<double>(blocks) / kL2});
}

// How many blocks of clusters there are at once. Those of four do not fill all SMs (28 were seen on
// 132), nor do those of three (39).
int64_t room_of(int cluster, int sms) {
  if (cluster == 4) return sms * 28 / 132 * 4;
  if (cluster == 3) return sms * 39 / 132 * 3;
  return sms / cluster * cluster;
}

// Of all rounds. Where K is split the ranges' sums are added besides.
double cycles_of(const FewRowsTile& tile, int64_t blocks, int64_t room, int64_t stages) {
  constexpr double kAddCycles = 4500;
  const double each = cycles_of_stage(tile, std::min(blocks, room));
  return tile.rounds * (static_cast<double>(ceil_div(stages, tile.splits)) * each +
                        kFewRowsRoundCycles + (tile.splits > 1 ? kAddCycles : 0));
}

}  // namespace

FewRowsTile few_rows_tile(int64_t rows, int64_t columns, int64_t k, int sms) {
  constexpr int kMostParts = 8;
  constexpr int64_t kUnit = device::kFewRowsUnit, kLeastStages = 4;
  const int64_t stages = ceil_div(k, device::kTileK);
  FewRowsTile best;
  best.cycles = std::numeric_limits<double>::infinity();
  const auto consider = [&](FewRowsTile tile, int parts) {
    const int64_t room = room_of(tile.sharing * tile.sharing * tile.splits, sms);
    if (room == 0) return;
    const int64_t across = ceil_div(columns, int64_t{tile.columns} * tile.sharing) * tile.sharing;
    const int64_t blocks = across * parts * tile.splits;
    tile.rounds = static_cast<int>(ceil_div(blocks, room));
    tile.cycles = cycles_of(tile, blocks, room, stages);
    if (tile.cycles < best.cycles) best = tile;
  };
  for (const int width : {64, 96, 128}) {
    for (int parts = 1; parts <= kMostParts; ++parts) {
      FewRowsTile tile{width, static_cast<int>(ceil_div(rows, parts * kUnit) * kUnit)};
      if (tile.rows > device::kMostRowsOfTile) continue;
      for (int splits = 1; splits <= device::kMostSplits; ++splits) {
        tile.splits = splits;
        if (splits == 1 || stages >= kLeastStages * splits) consider(tile, parts);
      }
      tile.splits = 1;
      tile.sharing = 2;
      if (parts % 2 == 0) consider(tile, parts);
    }
  }
  return best;
}

}  // namespace stretto
