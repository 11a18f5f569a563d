#include "tune/phased_gathers.h"

#include <algorithm>

#include "tune/sweep.h"

namespace stretto {
namespace {

// They are so much faster than the same tiles with whole rows. First one number of them for each of
// these sizes, then the others for the best sizes. One wave of tiles decides, so that narrow ones
// are worth a look where columns are few.
constexpr SweptTile kPhaseTiles[] = {{128, 256}, {128, 224}, {128, 192}, {128, 128}, {128, 64}};
constexpr int kPhaseCommSms[] = {4, 8, 12};
constexpr int kFirstPhases = 4, kOtherPhases[] = {2, 8};
constexpr size_t kBestSizes = 4;
constexpr double kPhasesFaster = 1.05;

}  // namespace

bool own_tiles_fill(const Segment& op, const Machine& machine) {
  const auto tiles = [](int64_t size, int tile) { return (size + tile - 1) / tile; };
  return tiles(op.row_shards().block(), kPhaseTiles[0].m) * tiles(op.local_n(), kPhaseTiles[0].n) >=
         machine.sms;
}

std::vector<Candidate> phased_gathers(const Segment& op, const Machine& machine,
                                      Predictions& predictions) {
  const bool short_k = op.k < kShortestPhase * kFirstPhases;
  if (op.makes_terms() || op.ranks == 1 || short_k || own_tiles_fill(op, machine)) return {};
  Sweep sweep(op, machine);
  Schedule tiles = fused_tiles(op, machine);
  for (const SweptTile& tile : kPhaseTiles) {
    tiles.tile_m = tile.m;
    tiles.tile_n = tile.n;
    for (const int comm_sms : kPhaseCommSms) {
      tiles.comm_sms = comm_sms;
      sweep.add(tiles);
    }
  }
  struct Size {
    Candidate phased;
    double whole_us;
  };
  std::vector<Schedule> schedules = sweep.schedules();
  const size_t count = schedules.size();
  for (size_t i = 0; i < count; ++i) {
    schedules.push_back(schedules[i]);
    schedules.back().k_phases = kFirstPhases;
  }
  if (count == 0 || !legal(op, schedules.back(), machine).empty()) return {};
  std::vector<double> predicted = predictions.us(op, schedules);
  std::vector<Size> sizes;
  for (size_t i = 0; i < count; ++i) {
    sizes.push_back({{schedules[count + i], predicted[count + i]}, predicted[i]});
  }
  std::stable_sort(sizes.begin(), sizes.end(), [](const Size& a, const Size& b) {
    return a.phased.predicted_us < b.phased.predicted_us;
  });
  std::vector<Candidate> found;
  const auto add = [&](const Candidate& candidate, const Size& size) {
    if (candidate.predicted_us * kPhasesFaster <= size.whole_us) found.push_back(candidate);
  };
  for (const Size& size : sizes) add(size.phased, size);
  for (size_t i = 0; i < std::min(kBestSizes, sizes.size()); ++i) {
    std::vector<Schedule> others;
    for (const int phases : kOtherPhases) {
      Schedule other = sizes[i].phased.schedule;
      other.k_phases = phases;
      if (op.k >= kShortestPhase * phases && legal(op, other, machine).empty()) {
        others.push_back(other);
      }
    }
    predicted = predictions.us(op, others);
    for (size_t o = 0; o < others.size(); ++o) add({others[o], predicted[o]}, sizes[i]);
  }
  sort_by_prediction(found);
  return found;
}

}  // namespace stretto
