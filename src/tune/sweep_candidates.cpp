#include <algorithm>

#include "stretto/tune.h"
#include "tune/predict.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

struct Tile {
  int m, n;
};
constexpr Tile kTiles[] = {{128, 256}, {128, 224}, {128, 192}, {128, 160}, {128, 128}, {64, 256}};
constexpr int kCommSms[] = {0, 4, 8, 12, 16};
constexpr int kChunks[] = {1, 2, 4};

// Of the fused preset, what has been fastest on some shape: the simulation does not choose among
// these.
struct FusedPoint {
  Tile tile;
  int comm_sms;
};
constexpr FusedPoint kGathers[] = {{{128, 256}, 4}, {{128, 192}, 8}, {{128, 128}, 12}};
constexpr FusedPoint kReductions[] = {{{128, 256}, 0}, {{128, 192}, 0}, {{128, 128}, 0}};

// Split K is measured where the simulation finds it so much faster than the same tiles with a whole
// K: with few tiles, and ranges that are not shorter than this. At most so many.
constexpr int kSplits[] = {2, 3, 4, 6, 8};
constexpr int64_t kShortestRange = 1024;
constexpr size_t kMostSplits = 2;

// NCCL on parts of the result is measured where the simulation finds nothing so much faster.
constexpr double kClearlyFaster = 1.1;

class Sweep {
 public:
  Sweep(const Operator& op, const Machine& machine, RowCount rows = RowCount::fixed)
      : op_(op), machine_(machine), rows_(rows) {}

  const std::vector<Schedule>& schedules() const { return schedules_; }

  void add(Schedule schedule) {
    schedule.rows = rows_;
    if (std::find(schedules_.begin(), schedules_.end(), schedule) != schedules_.end()) return;
    if (legal(op_, schedule, machine_).empty()) schedules_.push_back(schedule);
  }

  // `base` with each tile shape and number of communication SMs.
  void add_sizes(const Schedule& base) {
    for (const Tile& tile : kTiles) {
      Schedule schedule = base;
      schedule.tile_m = tile.m;
      schedule.tile_n = tile.n;
      for (const int comm_sms : kCommSms) {
        schedule.comm_sms = comm_sms;
        add(schedule);
      }
    }
  }

 private:
  const Operator& op_;
  const Machine& machine_;
  RowCount rows_;
  std::vector<Schedule> schedules_;
};

// The fused preset with its tiles in the order that was found best.
Schedule fused(const Operator& op, const Machine& machine) {
  Schedule tiles = find_preset("tiles").make(op, machine);
  tiles.order = op.reduces() ? Order::interleaved : Order::arrival;
  return tiles;
}

void add_usual(Sweep& sweep, const Operator& op, const Machine& machine) {
  for (const Preset& preset : presets()) sweep.add(preset.make(op, machine));
  Schedule tiles = fused(op, machine);
  for (const FusedPoint& point : op.reduces() ? kReductions : kGathers) {
    tiles.tile_m = point.tile.m;
    tiles.tile_n = point.tile.n;
    tiles.comm_sms = point.comm_sms;
    sweep.add(tiles);
  }
}

}  // namespace

std::vector<Schedule> usual_schedules(const Operator& op, const Machine& machine, RowCount rows) {
  Sweep sweep(op, machine, rows);
  add_usual(sweep, op, machine);
  return sweep.schedules();
}

std::vector<Candidate> sweep_candidates(const Operator& op, const Machine& machine, size_t more) {
  Sweep sweep(op, machine);
  add_usual(sweep, op, machine);
  const size_t num_given = sweep.schedules().size();

  Schedule tiles = fused(op, machine);
  Schedule whole = tiles;  // the smallest of the usual ones
  whole.tile_m = whole.tile_n = 128;
  whole.comm_sms = (op.reduces() ? kReductions : kGathers)[2].comm_sms;
  Schedule split = whole;
  for (const int splits : kSplits) {
    split.split_k = splits;
    if (op.local_k() >= kShortestRange * splits) sweep.add(split);
  }
  const size_t num_splits = sweep.schedules().size();

  sweep.add_sizes(tiles);
  tiles.order = op.reduces() ? Order::peer_staggered : Order::own_first;
  sweep.add_sizes(tiles);
  Schedule decomposed = find_preset("decomposed").make(op, machine);
  for (const int chunks : kChunks) {
    decomposed.chunks = chunks;
    for (const Tile& tile : kTiles) {
      decomposed.tile_m = tile.m;
      decomposed.tile_n = tile.n;
      sweep.add(decomposed);
    }
  }

  const std::vector<Schedule>& schedules = sweep.schedules();
  const std::vector<double> predicted = predicted_us(op, schedules, machine);
  const double best = *std::min_element(predicted.begin(), predicted.end());
  const auto unsplit =
      static_cast<size_t>(std::find(schedules.begin(), schedules.end(), whole) - schedules.begin());
  std::vector<Candidate> candidates, split_ones, others;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const bool parts_by_nccl =
        schedules[i].mover == Mover::nccl && schedules[i].granularity != Granularity::whole;
    if (i < num_given && parts_by_nccl && predicted[i] > best * kClearlyFaster) continue;
    const bool is_split = i >= num_given && i < num_splits;
    if (is_split && predicted[i] * kClearlyFaster > predicted[unsplit]) continue;
    (i < num_given ? candidates
     : is_split    ? split_ones
                   : others)
        .push_back({schedules[i], predicted[i]});
  }
  const auto add_best = [&](std::vector<Candidate>& of, size_t most) {
    std::stable_sort(of.begin(), of.end(), [](const Candidate& a, const Candidate& b) {
      return a.predicted_us < b.predicted_us;
    });
    of.resize(std::min(of.size(), most));
    candidates.insert(candidates.end(), of.begin(), of.end());
  };
  add_best(split_ones, kMostSplits);
  add_best(others, more);
  return candidates;
}

}  // namespace stretto
