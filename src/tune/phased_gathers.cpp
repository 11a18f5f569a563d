#include "tune/phased_gathers.h"

#include <algorithm>
#include <utility>

#include "schedule/gather_order.h"
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

// Sizes of tiles, with the first number of phases, the fastest first.
class PhasedSizes {
 public:
  PhasedSizes(const Segment& op, const Machine& machine, Predictions& predictions,
              std::vector<Candidate> sizes)
      : op_(op), machine_(machine), predictions_(predictions), sizes_(std::move(sizes)) {}

  // The same with whole rows is simulated only where it may decide.
  std::vector<Candidate> best(size_t most) {
    std::vector<Candidate> others;
    for (size_t first = 0; first < sizes_.size(); first += kBestSizes) {
      if (are_faster(most, sizes_[first], others)) break;
      const size_t last = std::min(first + kBestSizes, sizes_.size());
      simulate_whole(first, last);
      for (size_t i = first; i < last; ++i) {
        add(sizes_[i], i, found_);
        if (first == 0) add_other_phases(i, others);
      }
    }
    found_.insert(found_.end(), others.begin(), others.end());
    sort_by_prediction(found_);
    found_.resize(std::min(found_.size(), most));
    return std::move(found_);
  }

 private:
  // Whether so many are known that are faster than the size, and so than those behind it.
  bool are_faster(size_t most, const Candidate& size, const std::vector<Candidate>& others) const {
    const auto is_faster = [&](const Candidate& one) {
      return one.predicted_us < size.predicted_us;
    };
    const auto count = std::count_if(found_.begin(), found_.end(), is_faster) +
                       std::count_if(others.begin(), others.end(), is_faster);
    return static_cast<size_t>(count) >= most;
  }

  void simulate_whole(size_t first, size_t last) {
    std::vector<Schedule> whole;
    for (size_t i = first; i < last; ++i) {
      whole.push_back(sizes_[i].schedule);
      whole.back().k_phases = 1;
    }
    const std::vector<double> us = predictions_.us(op_, whole);
    whole_us_.insert(whole_us_.end(), us.begin(), us.end());
  }

  void add_other_phases(size_t size, std::vector<Candidate>& others) {
    std::vector<Schedule> schedules;
    for (const int phases : kOtherPhases) {
      Schedule other = sizes_[size].schedule;
      other.k_phases = phases;
      if (op_.k >= kShortestPhase * phases && legal(op_, other, machine_).empty()) {
        schedules.push_back(other);
      }
    }
    const std::vector<double> us = predictions_.us(op_, schedules);
    for (size_t i = 0; i < schedules.size(); ++i) add({schedules[i], us[i]}, size, others);
  }

  void add(const Candidate& candidate, size_t size, std::vector<Candidate>& to) const {
    if (candidate.predicted_us * kPhasesFaster <= whole_us_[size]) to.push_back(candidate);
  }

  const Segment& op_;
  const Machine& machine_;
  Predictions& predictions_;
  const std::vector<Candidate> sizes_;
  std::vector<double> whole_us_;  // by size, as far as simulated
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Schedule> gated_phases(const Segment& op, const Machine& machine) {
  constexpr SweptTile kTiles[] = {{128, 224}, {128, 256}};
  if (op.weights == 1 || op.is_routed() || !op.gathers() || op.ranks == 1) return {};
  if (own_tiles_fill(op, machine)) return {};
  Sweep sweep(op, machine);
  Schedule tiles = fused_tiles(op, machine);
  for (const SweptTile& tile : kTiles) {
    set_size(tiles, tile, kPhaseCommSms[0]);
    for (const int phases : {kFirstPhases, kOtherPhases[1]}) {
      if (op.k < kShortestPhase * phases) continue;
      tiles.k_phases = phases;
      sweep.add(tiles);
    }
  }
  return sweep.schedules();
}

std::vector<Candidate> phased_gathers(const Segment& op, const Machine& machine, size_t most,
                                      Predictions& predictions) {
  const bool short_k = op.k < kShortestPhase * kFirstPhases;
  if (!op.gathers() || op.ranks == 1 || short_k || own_tiles_fill(op, machine)) return {};
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
  std::vector<Schedule> schedules = sweep.schedules();
  for (Schedule& one : schedules) one.k_phases = kFirstPhases;
  if (schedules.empty() || !legal(op, schedules.back(), machine).empty()) return {};
  const std::vector<double> predicted = predictions.us(op, schedules);
  std::vector<Candidate> sizes;
  for (size_t i = 0; i < schedules.size(); ++i) sizes.push_back({schedules[i], predicted[i]});
  std::stable_sort(sizes.begin(), sizes.end(), [](const Candidate& a, const Candidate& b) {
    return a.predicted_us < b.predicted_us;
  });
  return PhasedSizes(op, machine, predictions, std::move(sizes)).best(most);
}

}  // namespace stretto
