#include "op/expert_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/device/grouped_task.h"

namespace stretto {
namespace {

// Ranges, on which bits hang, are chosen for so many SMs, however many there are, and only where
// they gain this much: nothing that was measured has them ahead by little.
constexpr int kSmsOfRanges = 132;
constexpr double kWorthRanges = 0.9;

constexpr ExpertTile kTiles[] = {
    {256, 128, 4}, {128, 192, 5}, {128, 256, 4}, {192, 128, 4}, {128, 128, 6},   {256, 96, 4},
    {192, 96, 5},  {128, 96, 7},  {256, 64, 5},  {192, 64, 6},  {128, 64, 8},    {256, 32, 5},
    {192, 32, 6},  {128, 32, 10}, {192, 160, 4}, {256, 144, 4}, {128, 64, 8, 2}, {128, 128, 6, 2},
};

// One H200, 2400 times of products of six models, most of them of
// bench/results/expert_cuts_h200_x1.json and expert_tall_h200_x1.json; but for the first two in
// cycles of an SM.
constexpr double kStartUs = 7, kHbmBytes = 4.9e6;  // in a us
// For each row of 64 columns and block of K.
constexpr double kTensorOf128 = 2.3, kTensorOf192 = 2.15, kTensorOf256 = 2.38;
constexpr double kShared = 1.075;  // of 128 bytes of shared memory that are written or read
constexpr double kBytes = 59, kGatheredBytes = 23.5;
constexpr double kGatherShare = 0.15;  // of gathering, beside what it hides behind
constexpr double kStageWait = 200;     // of a block of K, by the square of stages
constexpr double kTileCycles = 400, kAddCycles = 5000, kCyclesOfUs = 1750;
constexpr double kUnitWaste = 8, kTail = 0.4;
// Where some experts have one cut and others two, which are half as high: the others' share of the
// weights is gone from the L2 cache sooner.
constexpr double kUneven = 0.12;
constexpr double kLastCycles =
    0.2;  // of an element of the last tile, behind which nothing is multiplied
constexpr int64_t kBlockOfK = 64;

// What is stored, in bytes a cycle, is on its way while the next tile is multiplied.
constexpr double kStoredBytes = 18;
constexpr int64_t kLineBytes = 128;  // of the L2 cache

// Up to this K a tile is multiplied sooner than it is handed over chunk by chunk: half of it is at
// once, where that leaves room for as many stages as K has blocks. From 32 to 512 rows an expert
// that takes 0.66 to 1.0 of the time (docs/notes/moe-gemm.md). Fewer rows wait for weights.
constexpr int64_t kShortK = 256, kFewestRows = 32;
constexpr int kRowsOfTall = 96, kStagesOfShortK = 4;
constexpr double kHandCycles = 240;  // of a chunk that is handed over alone
// Behind each of the next tile's blocks of K one chunk is handed over while it is multiplied; of
// one more than these, as tall tiles have of a K of 384, so many cycles.
constexpr double kLateCycles = 180;

// Routers choose some experts more than others, and what these have is best in tall tiles. So of
// tiles that are within this of the fastest the tallest is taken, up to this height, where there
// are rows enough for an expert to have many: with chances by Zipf's law that is 1.0 % faster in
// the mean of 30 products (bench/results/expert_zipf_h200_x1.json), and with even ones level, 0.04
// % slower at most in the mean of a file. Of fewer rows tall tiles only leave fewer stages for
// weights that come before the kernel ahead has ended (docs/notes/moe-gemm.md).
constexpr double kAlike = 1.02;
constexpr int kTall = 128;
constexpr int64_t kManyRows = 1024, kManyEach = 32;

double tiles_of(int64_t size, int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

// Into how many tiles an expert's rows are cut in the mean, where they deviate from `rows` by
// `spread`: of 128 experts with 128 rows each nine or ten have more than 144.
double cuts_of(double rows, double spread, int most) {
  constexpr double kFarthest = 4;  // spreads
  double cuts = 1;
  for (double edge = most; edge < rows + kFarthest * spread - 1e-6; edge += most) {
    cuts += spread > 0 ? 0.5 * std::erfc((edge - rows) / (spread * std::numbers::sqrt2)) : 1.0;
  }
  return cuts;
}

// Lines from which 128 bytes of a row of so many elements come, in the mean over rows.
double lines_of(int64_t k) {
  return 2.0 - static_cast<double>(std::gcd(2 * k, kLineBytes)) / kLineBytes;
}

bool has_registers_for(const ExpertTile& tile, const ExpertLoad& of, bool gathers) {
  return tile.rows <= device::most_rows_of({.columns = tile.columns,
                                            .gathers = gathers,
                                            .scatters = of.scatters,
                                            .follower = of.joins ? device::Follower::swiglu
                                                                 : device::Follower::none});
}

bool is_short(const ExpertLoad& of) { return of.k <= kShortK && of.rows >= kFewestRows; }

// Chunks that one consumer has of so many of its rows.
int chunks_of(const ExpertTile& tile, double rows, bool joins = false) {
  const int across =
      device::layout_of({.columns = tile.columns,
                         .follower = joins ? device::Follower::swiglu : device::Follower::none})
          .chunks_across;
  return static_cast<int>(std::ceil(rows / device::kTokenChunkRows)) * across;
}

// The tile as it is for this K, or nothing where it has no room for what it should be.
std::optional<ExpertTile> for_short_k(ExpertTile tile, const ExpertLoad& of, bool gathers) {
  if (!is_short(of) || tile.ranges > 1 || tile.rows < kRowsOfTall) return tile;
  device::GroupedConfig config{
      .columns = tile.columns, .rows = tile.rows, .stages = kStagesOfShortK, .gathers = gathers};
  config.together = (chunks_of(tile, tile.rows) + 1) / 2;
  const auto has_room = [&] {
    return device::layout_of(config).shared_bytes <= device::kSharedBytesOfHopper;
  };
  if (!has_room()) return std::nullopt;
  while (has_room()) ++config.stages;
  tile.stages = config.stages - 1;
  tile.together = config.together;
  return tile;
}

double tensor_cycles(int columns) {
  return columns == 128 ? kTensorOf128 : columns == 192 ? kTensorOf192 : kTensorOf256;
}

// A block of K passes shared memory once as it comes, and then as wgmma reads it: weights once, and
// tokens for each 64 columns. In lines of 128 bytes, a row of either.
double shared_lines(int columns, double high) {
  return columns + high + columns + high * columns / 64;
}

double eighth(double x) { return x * x * x * x * x * x * x * x; }

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
  const double multiply = tensor_cycles(tile.columns) * (tile.columns / 64.0) * high;
  const double shared = kShared * shared_lines(tile.columns, high);
  const double load = row_bytes * lines_of(of.k) * (tile.columns + high) / kBytes;
  const double gather = gathers ? row_bytes * high / kGatheredBytes : 0;
  const double limit =
      std::pow(eighth(multiply) + eighth(shared) + eighth(load) + eighth(gather), 1.0 / 8);
  const double stage = limit + kGatherShare * gather + kStageWait / (tile.stages * tile.stages);
  const double blocks_of_k = std::ceil(tiles_of(of.k, kBlockOfK) / tile.ranges);
  double hands = 0;
  if (tile.together == 1) {
    hands = is_short(of)
                ? kHandCycles * chunks_of(tile, high)
                : kLateCycles * std::max(0.0, chunks_of(tile, high, of.joins) - (blocks_of_k - 1));
  }
  const double besides = kTileCycles + (tile.ranges > 1 ? kAddCycles : 0) + hands;
  const double store = tile.columns * high * 2 / kStoredBytes;
  const double of_blocks = std::hypot(blocks_of_k * stage, store);
  // Blocks end at about the same time where tiles are equally high. Where some experts have a cut
  // more than others, tiles are not, and the last of the highest ones ends alone.
  const double rounds = experts * cuts * tiles_of(of.columns, tile.columns) * tile.ranges /
                        std::max(tile.ranges, sms / tile.ranges * tile.ranges);
  const double whole = std::floor(cuts), some = cuts - whole, uneven = 4 * some * (1 - some);
  const double each = (of_blocks + besides) * (1 + kUneven * uneven / whole);
  const double highest = std::min(static_cast<double>(tile.rows), (rows + spread) / whole);
  const double longest = of_blocks * std::max(1.0, highest / high) + besides;
  const double cycles = kLastCycles * tile.columns * high +
                        (1 - uneven) * std::ceil(rounds - 1e-9) * each +
                        uneven * std::max(longest, rounds * each + kTail * longest);
  const double multiply_us = cycles / kCyclesOfUs;
  const double read_us =
      experts * static_cast<double>(of.columns) * static_cast<double>(of.k) * 2 / kHbmBytes;
  return kStartUs + std::sqrt(multiply_us * multiply_us + read_us * read_us);
}

ExpertTile expert_tile(const ExpertLoad& of, bool gathers, int sms) {
  // By height as far as that counts, then by time, of those that take about as long as the fastest.
  const bool may_be_uneven = of.rows * of.experts >= kManyRows && of.rows >= kManyEach;
  const auto best_of = [&](int ranges, int on) {
    std::vector<std::pair<double, ExpertTile>> all;
    for (const ExpertTile& one : kTiles) {
      if (one.ranges != ranges || !has_registers_for(one, of, gathers)) continue;
      const std::optional<ExpertTile> tile = for_short_k(one, of, gathers);
      if (tile) all.emplace_back(expert_us(*tile, of, gathers, on), *tile);
    }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [us, tile] : all) least = std::min(least, us);
    const auto height = [&](const auto& one) {
      return may_be_uneven && one.first <= kAlike * least ? std::min(one.second.rows, kTall) : 0;
    };
    const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return std::pair(-height(a), a.first) < std::pair(-height(b), b.first);
    });
    return best == all.end() ? std::pair(ExpertTile{}, least) : std::pair(best->second, least);
  };
  // Each range has two blocks of K at least.
  const bool can_split = of.k > 3 * kBlockOfK;
  const bool splits =
      can_split && best_of(2, kSmsOfRanges).second < kWorthRanges * best_of(1, kSmsOfRanges).second;
  return best_of(splits ? 2 : 1, sms).first;
}

double gathers_times(const ExpertLoad& of, int sms) {
  return std::max(1.0, expert_us(expert_tile(of, true, sms), of, true, sms) /
                           expert_us(expert_tile(of, false, sms), of, false, sms));
}

}  // namespace stretto
