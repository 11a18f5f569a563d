#include "op/few_rows_tiles.h"

#include <algorithm>
#include <cmath>
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
double cycles_of_stage(const FewRowsTile& tile, int64_t blocks, int parts_beside) {
  constexpr double kTensor = 2.6, kShared = 128, kL2 = 8000, kSmReads = 24, kLeast = 200;
  constexpr double kRowBytes = 2.0 * device::kTileK, kNarrow = 1.1;
  const int consumers = tile.columns > device::kFewRowsColumns ? 2 : 1;
  const double loaded = kRowBytes * (tile.columns + tile.rows);
  const double read = kRowBytes * consumers * (device::kFewRowsColumns + tile.rows);
  // Of one or two parts of the rows; more of them bring each other's weights into the L2 cache.
  const double weights = kRowBytes * tile.columns / kSmReads / std::max(1.0, parts_beside / 2.0);
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

// Of a tile's multiplications, or of a range of its K.
double cycles_of_tile(const FewRowsTile& tile, int64_t blocks, int parts, int64_t room,
                      int64_t stages) {
  return static_cast<double>(ceil_div(stages, tile.splits)) *
         cycles_of_stage(tile, std::min(blocks, room), tile.sends_beside ? parts : 1);
}

// Of all rounds. Where K is split the ranges' sums are added besides. Blocks that send a tile
// beside the next load that one meanwhile: reckoned, and nothing is fitted to it yet.
double cycles_of(const FewRowsTile& tile, double of_tile) {
  constexpr double kAddCycles = 4500, kNextTile = 1000;
  if (tile.sends_beside) {
    return tile.rounds * of_tile + kFewRowsRoundCycles + (tile.rounds - 1) * kNextTile;
  }
  return tile.rounds * (of_tile + kFewRowsRoundCycles + (tile.splits > 1 ? kAddCycles : 0));
}

// A share of what is sent, which takes links `link_cycles`: what is left of it behind the product
// where tiles are sent beside the next, those that are sent first.
double left_behind(const FewRowsTile& tile, double of_tile, double link_cycles, int64_t sent_tiles,
                   int64_t sms) {
  const int64_t rounds = ceil_div(sent_tiles, sms);
  const double last =
      static_cast<double>(sent_tiles - (rounds - 1) * sms) / static_cast<double>(sent_tiles);
  const double first_end = kFewRowsRoundCycles + of_tile;
  const double last_end = first_end + static_cast<double>(rounds - 1) * (tile.cycles - first_end) /
                                          std::max(1, tile.rounds - 1);
  const double end = std::max(first_end + link_cycles, last_end + last * link_cycles);
  return std::max(0.0, end - tile.cycles) / link_cycles;
}

// Of who receives: it reads and poisons the slots of all ranks, and writes sums.
double receiving_cycles(double sent, double bytes) {
  constexpr double kMemoryBytes = 2100;  // a cycle
  if (sent <= 0) return 0;
  const bool to_owners = sent < 1;
  const double ranks = to_owners ? 1 / (1 - sent) : sent + 1;
  return (2 * ranks + 1) * (to_owners ? bytes / ranks : bytes) / kMemoryBytes;
}

}  // namespace

double times_sent(int ranks, bool to_owners) {
  return to_owners ? static_cast<double>(ranks - 1) / ranks : ranks - 1;
}

FewRowsTile few_rows_tile(int64_t rows, int64_t columns, int64_t k, double sent, int sms) {
  constexpr int kMostParts = 16;
  constexpr int64_t kUnit = device::kFewRowsUnit, kLeastStages = 4;
  constexpr double kLinkBytes = 190;  // a cycle: 350 GB/s where an SM has 1850 a microsecond
  const int64_t stages = ceil_div(k, device::kTileK);
  const double bytes = 2 * static_cast<double>(rows) * static_cast<double>(columns);
  const double link_cycles = sent * bytes / kLinkBytes;
  const double receiving = receiving_cycles(sent, bytes);
  FewRowsTile best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](FewRowsTile tile, int parts) {
    const int64_t room = room_of(tile.sharing * tile.sharing * tile.splits, sms);
    if (room == 0) return;
    const int64_t across = ceil_div(columns, int64_t{tile.columns} * tile.sharing) * tile.sharing;
    const int64_t blocks = across * parts * tile.splits;
    tile.rounds = static_cast<int>(ceil_div(blocks, room));
    tile.sends_beside = sent > 0 && tile.rounds > 1 && tile.rows <= kMostRowsBeside &&
                        tile.columns == 2 * device::kFewRowsColumns &&
                        tile.sharing * tile.splits == 1;
    const double of_tile = cycles_of_tile(tile, blocks, parts, room, stages);
    tile.cycles = cycles_of(tile, of_tile);
    if (tile.sends_beside) {
      const auto sent_parts = static_cast<int64_t>(std::ceil(std::min(sent, 1.0) * parts));
      tile.behind = left_behind(tile, of_tile, link_cycles, across * sent_parts, sms);
    }
    const double cycles = tile.cycles + std::max(tile.behind * link_cycles, receiving);
    if (cycles >= least) return;
    least = cycles;
    best = tile;
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
