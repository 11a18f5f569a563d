#include <algorithm>
#include <span>

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

// The same for a sweep, where the simulation finds them not so much slower than the best of all: it
// is 10 to 25 % too fast for phases of K, and does not see what wider sweeps and copy engines win.
struct FoundPoint {
  Mover mover;
  Tile tile;
  int comm_sms, k_phases, swizzle;
};
constexpr FoundPoint kFoundGathers[] = {
    {Mover::comm_blocks, {128, 192}, 4, 4, 8}, {Mover::comm_blocks, {128, 256}, 4, 8, 8},
    {Mover::comm_blocks, {128, 256}, 8, 4, 8}, {Mover::comm_blocks, {128, 224}, 4, 4, 8},
    {Mover::copy_engine, {128, 192}, 0, 1, 8}, {Mover::copy_engine, {128, 256}, 0, 1, 8}};
constexpr FoundPoint kFoundReductions[] = {{Mover::epilogue, {128, 256}, 0, 1, 16},
                                           {Mover::epilogue, {128, 192}, 0, 1, 16},
                                           {Mover::copy_engine, {128, 256}, 0, 1, 8}};
constexpr double kTooSlow = 1.3;

// Split K is measured where the simulation finds it so much faster than the same tiles with a whole
// K: with few tiles, and ranges that are not shorter than this. At most so many.
constexpr int kSplits[] = {2, 3, 4, 6, 8};
constexpr int64_t kShortestRange = 1024;
constexpr size_t kMostSplits = 2;

// Phases of K are measured where the simulation finds them so much faster than the same tiles with
// whole rows, and not slower than all else. First one number of them for each of these sizes, then
// the others for the best sizes; at most so many. One wave of tiles decides, so that narrow ones
// are worth a look where columns are few.
constexpr Tile kPhaseTiles[] = {{128, 256}, {128, 224}, {128, 192}, {128, 128}, {128, 64}};
constexpr int kPhaseCommSms[] = {4, 8, 12};
constexpr int kFirstPhases = 4, kOtherPhases[] = {2, 8};
constexpr size_t kMostPhased = 3, kBestSizes = 2;
constexpr double kPhasesFaster = 1.05;
constexpr int64_t kShortestPhase = 1024;  // columns: shorter rows are slow to push

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

// Own rows that fill all SMs for a while hide the flight of the others'.
bool own_tiles_fill(const Operator& op, const Machine& machine) {
  const auto tiles = [](int64_t size, int tile) { return (size + tile - 1) / tile; };
  return tiles(op.row_shards().block(), kTiles[0].m) * tiles(op.local_n(), kTiles[0].n) >=
         machine.sms;
}

// What was found fastest on some shape against its prediction.
void add_found(Sweep& sweep, const Operator& op, const Machine& machine) {
  for (const FoundPoint& point : op.reduces() ? std::span<const FoundPoint>(kFoundReductions)
                                              : std::span<const FoundPoint>(kFoundGathers)) {
    if (point.k_phases > 1 && own_tiles_fill(op, machine)) continue;
    // Copy engines send sums by the slice.
    const bool slices = op.reduces() && point.mover == Mover::copy_engine;
    Schedule found = slices ? find_preset("slices").make(op, machine) : fused(op, machine);
    found.mover = point.mover;
    found.tile_m = point.tile.m;
    found.tile_n = point.tile.n;
    found.comm_sms = point.comm_sms;
    found.k_phases = point.k_phases;
    found.swizzle = point.swizzle;
    if (point.mover == Mover::copy_engine) found.reuse = Reuse::double_buffer;
    sweep.add(found);
  }
}

void sort_by_prediction(std::vector<Candidate>& candidates) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.predicted_us < b.predicted_us; });
}

// Gathers in phases of K that are predicted to be faster than the same with whole rows.
std::vector<Candidate> phased_gathers(const Operator& op, const Machine& machine) {
  const bool short_k = op.k < kShortestPhase * kFirstPhases;
  if (op.reduces() || op.ranks == 1 || short_k || own_tiles_fill(op, machine)) return {};
  Sweep sweep(op, machine);
  Schedule tiles = fused(op, machine);
  for (const Tile& tile : kPhaseTiles) {
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
  std::vector<double> predicted = predicted_us(op, schedules, machine);
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
    predicted = predicted_us(op, others, machine);
    for (size_t o = 0; o < others.size(); ++o) add({others[o], predicted[o]}, sizes[i]);
  }
  sort_by_prediction(found);
  return found;
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
  add_found(sweep, op, machine);
  const size_t num_found = sweep.schedules().size();

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
    const bool is_found = i >= num_given && i < num_found;
    if (is_found && predicted[i] > best * kTooSlow) continue;
    const bool is_split = i >= num_found && i < num_splits;
    if (is_split && predicted[i] * kClearlyFaster > predicted[unsplit]) continue;
    (i < num_found ? candidates
     : is_split    ? split_ones
                   : others)
        .push_back({schedules[i], predicted[i]});
  }
  const auto add_best = [&](std::vector<Candidate>& of, size_t most) {
    sort_by_prediction(of);
    of.resize(std::min(of.size(), most));
    candidates.insert(candidates.end(), of.begin(), of.end());
  };
  add_best(split_ones, kMostSplits);
  std::vector<Candidate> phased = phased_gathers(op, machine);
  std::erase_if(phased, [&](const Candidate& one) {
    const auto same = [&](const Candidate& other) { return other.schedule == one.schedule; };
    return one.predicted_us > best || std::any_of(candidates.begin(), candidates.end(), same);
  });
  add_best(phased, kMostPhased);
  add_best(others, more);
  return candidates;
}

}  // namespace stretto
