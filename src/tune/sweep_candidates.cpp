#include <algorithm>

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {
namespace {

struct Tile {
  int m, n;
};
constexpr Tile kTiles[] = {{128, 256}, {128, 192}, {128, 128}, {64, 256}};
constexpr int kCommSms[] = {0, 4, 8, 16};
constexpr int kChunks[] = {1, 2, 4};

class Sweep {
 public:
  Sweep(const Operator& op, const Machine& machine) : op_(op), machine_(machine) {}

  const std::vector<Schedule>& schedules() const { return schedules_; }

  void add(const Schedule& schedule) {
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
  std::vector<Schedule> schedules_;
};

}  // namespace

std::vector<Candidate> sweep_candidates(const Operator& op, const Machine& machine, size_t more) {
  Sweep sweep(op, machine);
  for (const Preset& preset : presets()) sweep.add(preset.make(op, machine));
  const size_t num_presets = sweep.schedules().size();

  const Schedule tiles = find_preset("tiles").make(op, machine);
  sweep.add_sizes(tiles);
  for (const Order order : {Order::arrival, Order::interleaved}) {
    Schedule schedule = tiles;
    schedule.order = order;
    sweep.add_sizes(schedule);
  }
  const Schedule decomposed = find_preset("decomposed").make(op, machine);
  for (const int chunks : kChunks) {
    Schedule schedule = decomposed;
    schedule.chunks = chunks;
    for (const Tile& tile : kTiles) {
      schedule.tile_m = tile.m;
      schedule.tile_n = tile.n;
      sweep.add(schedule);
    }
  }

  const std::vector<double> predicted = predicted_us(op, sweep.schedules(), machine);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < predicted.size(); ++i) {
    candidates.push_back({sweep.schedules()[i], predicted[i]});
  }
  const auto others = candidates.begin() + static_cast<std::ptrdiff_t>(num_presets);
  std::stable_sort(others, candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.predicted_us < b.predicted_us;
  });
  candidates.resize(std::min(candidates.size(), num_presets + more));
  return candidates;
}

}  // namespace stretto
