#include "sim/library_product.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/ceil_div.h"
#include "sim/calibration.h"
#include "sim/tile_cycles.h"

namespace stretto::sim {
namespace {

// Its tiles: one side is rows of Hopper's MMAs by so many groups, the other takes columns by
// eights; sums of both must fit into registers.
constexpr std::array kSides{64, 128, 256};
constexpr int kWidthUnit = 8, kMostWidth = 304, kMostOfWidest = 160;
constexpr int kMostRanges = 8, kLeastStages = 16;

double cycles_of_stage(int side, int width) {
  return std::max(mma_cycles(side, width), kSharedMoves * shared_memory_cycles(side, width));
}

class Fastest {
 public:
  Fastest(const LibraryProduct& product, double sms, double power, const Machine& machine)
      : product_(product),
        sms_(sms),
        cycles_of_us_(machine.gemm_tflops * 1e6 / machine.sms / (2 * kMacsOfCycle)),
        sum_us_(static_cast<double>(4 * product.rows * product.columns) /
                (machine.hbm_gb_per_s * 1e3)),
        least_us_(static_cast<double>(product.rows * product.columns) *
                  static_cast<double>(product.k) / kMacsOfCycle / cycles_of_us_ / sms / power) {
    for (const int side : kSides) {
      for (int width = kWidthUnit; width <= kMostWidth; width += kWidthUnit) {
        if (side == kSides.back() && width > kMostOfWidest) break;
        stage_us_ = std::max(cycles_of_stage(side, width) / cycles_of_us_, kLibraryStageUs);
        try_tiles(ceil_div(product.rows, side) * ceil_div(product.columns, width));
        try_tiles(ceil_div(product.rows, width) * ceil_div(product.columns, side));
      }
    }
  }
  double us() const { return best_us_; }

 private:
  void try_tiles(int64_t tiles) {
    const int64_t stages = ceil_div(product_.k, kStageOfK);
    const double waves = std::ceil(static_cast<double>(tiles) / sms_);
    take(waves, static_cast<double>(stages), 0);
    for (int ranges = 2; ranges <= kMostRanges; ++ranges) {
      if (static_cast<double>(tiles * ranges) > sms_ || ceil_div(stages, ranges) < kLeastStages)
        break;
      take(1, static_cast<double>(ceil_div(stages, ranges)), kLibrarySumsUs + ranges * sum_us_);
    }
  }
  void take(double waves, double stages, double sums_us) {
    const double us =
        std::max(waves * stages * stage_us_, least_us_) + (waves - 1) * kLibraryWaveUs + sums_us;
    best_us_ = std::min(best_us_, us);
  }

  const LibraryProduct& product_;
  double sms_, cycles_of_us_, sum_us_, least_us_;
  double stage_us_ = 0, best_us_ = HUGE_VAL;
};

}  // namespace

double reread_us(double bytes, const Reread& rates, const Machine& machine) {
  const double kept = std::clamp((1 - bytes / machine.l2_bytes()) / (1 - rates.kept), 0.0, 1.0);
  return bytes * (kept / rates.of_cache + (1 - kept) / rates.of_memory) /
         (machine.hbm_gb_per_s * 1e3);
}

double library_us(const LibraryProduct& product, double sms, double power, const Machine& machine) {
  const double tiles_us = Fastest(product, sms, power, machine).us();
  const double bytes = static_cast<double>(2 * (product.rows + product.columns) * product.k);
  const double read_us = reread_us(bytes, kLibraryReads, machine);
  // Neither limit is reached all the time where they are alike.
  const double busy_us = std::sqrt(std::hypot(tiles_us * tiles_us, read_us * read_us));
  return kLibraryStartUs + busy_us;
}

}  // namespace stretto::sim
