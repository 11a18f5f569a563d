#include "op/expert_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace stretto {
namespace {

// Ranges, on which bits hang, are chosen for so many SMs, however many there are, and only where
// they gain this much: nothing that was measured has them ahead by little.
constexpr int kSmsOfRanges = 132;
constexpr double kWorthRanges = 0.9;

constexpr ExpertTile kTiles[] = {
    {256, 128, 4}, {128, 192, 5}, {128, 256, 4},   {192, 128, 4},    {128, 128, 6}, {256, 96, 4},
    {192, 96, 5},  {128, 96, 7},  {256, 64, 5},    {192, 64, 6},     {128, 64, 8},  {256, 32, 5},
    {192, 32, 6},  {128, 32, 10}, {128, 64, 8, 2}, {128, 128, 6, 2},
};
constexpr int kMostGathered = 192;  // rows of a tile, by four warps

// One H200, 400 times of products of six models; but for the first two in cycles of an SM.
constexpr double kStartUs = 7, kHbmBytes = 4.6e6;  // in a us
// For each row of 64 columns and block of K, by tiles of 128 columns and by wider ones.
constexpr double kTensor = 2.52, kTensorOfWide = 2.6;
constexpr double kBytes = 56, kGatheredBytes = 26;
constexpr double kGatherShare = 0.12;  // of gathering, beside what it hides behind
constexpr double kStageWait = 200;     // of a block of K, by the square of stages
constexpr double kTileCycles = 400, kAddCycles = 5000, kCyclesOfUs = 1750;
constexpr double kUnitWaste = 8, kTail = 0.75;
constexpr double kLastCycles =
    0.2;  // of an element of the last tile, behind which nothing is multiplied
constexpr int64_t kBlockOfK = 64;

// Of so short a K a tile is multiplied in less time than it is stored in, so that a whole one waits
// while the next is multiplied. Lower ones wait for weights, and those of few gathered rows for
// these: 0.79 to 0.96 of the time with 512 rows an expert, 0.94 to 1.06 with 64; with K of 256 the
// stages that are given up cost more, 1.09 to 1.13 (docs/notes/moe-gemm.md).
constexpr int64_t kShortK = 192;
constexpr int64_t kFewestGathered = 128;  // rows of an expert
constexpr int kRowsOfTall = 96, kSlots = 2, kSlotsOfShortK = 8;

double tiles_of(int64_t size, int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

// Into how many tiles an expert's rows are cut in the mean, where they are up to `spread` more or
// less than `rows`.
double cuts_of(double rows, double spread, int most) {
  double cuts = 1;
  for (double edge = most; edge < rows + spread - 1e-6; edge += most) {
    cuts += spread > 0 ? std::clamp(0.5 + (rows - edge) / (2 * spread), 0.0, 1.0) : 1.0;
  }
  return cuts;
}

double fourth(double x) { return x * x * x * x; }

}  // namespace

double expert_us(const ExpertTile& tile, const ExpertLoad& of, bool gathers, int sms) {
  const auto rows = static_cast<double>(std::max<int64_t>(of.rows, 1));
  const auto experts = static_cast<double>(std::max<int64_t>(of.experts, 1));
  // Of random choices; one expert has what it has.
  const double spread = std::sqrt(rows * (1 - 1 / experts));
  const double cuts = cuts_of(rows, spread, tile.rows);
  const double waste = of.experts > 1 ? kUnitWaste : 0;
  const double high = std::clamp(rows / cuts + waste, 16.0, static_cast<double>(tile.rows));
  const double row_bytes = 2.0 * kBlockOfK;
  const double multiply =
      (tile.columns == 128 ? kTensor : kTensorOfWide) * (tile.columns / 64.0) * high;
  const double load = row_bytes * (tile.columns + high) / kBytes;
  const double gather = gathers ? row_bytes * high / kGatheredBytes : 0;
  const double stage = std::sqrt(std::sqrt(fourth(multiply) + fourth(load) + fourth(gather))) +
                       kGatherShare * gather + kStageWait / (tile.stages * tile.stages);
  const double blocks_of_k = std::ceil(tiles_of(of.k, kBlockOfK) / tile.ranges);
  const double besides = kTileCycles + (tile.ranges > 1 ? kAddCycles : 0);
  const double each = blocks_of_k * stage + besides;
  // Blocks end at about the same time where tiles are equally high. Where some experts have a cut
  // more than others, tiles are not, and the last of the highest ones ends alone.
  const double rounds = experts * cuts * tiles_of(of.columns, tile.columns) * tile.ranges /
                        std::max(tile.ranges, sms / tile.ranges * tile.ranges);
  const double whole = std::floor(cuts), some = cuts - whole, uneven = 4 * some * (1 - some);
  const double highest = std::min(static_cast<double>(tile.rows), (rows + spread) / whole);
  const double longest = blocks_of_k * stage * std::max(1.0, highest / high) + besides;
  const double cycles = kLastCycles * tile.columns * high +
                        (1 - uneven) * std::ceil(rounds - 1e-9) * each +
                        uneven * std::max(longest, rounds * each + kTail * longest);
  const double multiply_us = cycles / kCyclesOfUs;
  const double read_us =
      experts * static_cast<double>(of.columns) * static_cast<double>(of.k) * 2 / kHbmBytes;
  return kStartUs + std::sqrt(multiply_us * multiply_us + read_us * read_us);
}

ExpertTile expert_tile(const ExpertLoad& of, bool gathers, int sms) {
  const auto best_of = [&](int ranges, int on) {
    ExpertTile best;
    double least = std::numeric_limits<double>::infinity();
    for (const ExpertTile& tile : kTiles) {
      if (tile.ranges != ranges || (gathers && tile.rows > kMostGathered)) continue;
      const double us = expert_us(tile, of, gathers, on);
      if (us >= least) continue;
      least = us;
      best = tile;
    }
    return std::pair(best, least);
  };
  // Each range has two blocks of K at least.
  const bool can_split = of.k > 3 * kBlockOfK;
  const bool splits =
      can_split && best_of(2, kSmsOfRanges).second < kWorthRanges * best_of(1, kSmsOfRanges).second;
  return best_of(splits ? 2 : 1, sms).first;
}

int chunk_slots(const ExpertTile& tile, const ExpertLoad& of, bool gathers) {
  const bool is_short = of.k <= kShortK && tile.ranges == 1 && tile.rows >= kRowsOfTall;
  const bool is_few = gathers && of.rows < kFewestGathered;
  return is_short && !is_few ? kSlotsOfShortK : kSlots;
}

double gathers_times(const ExpertLoad& of, int sms) {
  return std::max(1.0, expert_us(expert_tile(of, true, sms), of, true, sms) /
                           expert_us(expert_tile(of, false, sms), of, false, sms));
}

}  // namespace stretto
