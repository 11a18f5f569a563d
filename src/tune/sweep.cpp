#include "tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/ceil_div.h"
#include "core/text.h"
#include "schedule/gather_order.h"
#include "stretto/error.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

constexpr int kCommSms[] = {0, 4, 8, 12, 16};

// Of the fused preset, what has been fastest on some shape: the simulation does not choose among
// these.
struct FusedPoint {
  SweptTile tile;
  int comm_sms;
};
constexpr FusedPoint kGathers[] = {{{128, 256}, 4}, {{128, 192}, 8}, {{128, 128}, 12}};
constexpr FusedPoint kReductions[] = {{{128, 256}, 0}, {{128, 192}, 0}, {{128, 128}, 0}};

// Few tiles read their columns of B with few SMs: with K split most SMs read.
constexpr int kMostSplits = 2;

void add_splits(Sweep& sweep, const Segment& op, const Machine& machine, Schedule tiles) {
  const int64_t count = ceil_div(op.local_m(), tiles.tile_m) * ceil_div(op.local_n(), tiles.tile_n);
  int added = 0;
  tiles.k_phases = 1;
  for (const int splits : std::views::reverse(kSplits)) {
    if (count * splits > machine.sms - tiles.comm_sms || op.local_k() < kShortestRange * splits) {
      continue;
    }
    tiles.split_k = splits;
    sweep.add(tiles);
    if (++added == kMostSplits) return;
  }
}

// What a rank has of K hides the flight of the rest, so it may come by the slice, whose tiles read
// B half as often: by the tile six measured products took 2 to 21 % longer
// (docs/notes/two-gpus.md).
bool comes_by_all_to_all(const Segment& op) { return op.exchanges_input(); }

// Behind an all-to-all copy engines push a few slices to each peer, and every SM multiplies.
void add_slices_by_copy_engines(Sweep& sweep, const Segment& op, const Machine& machine) {
  Schedule slices = find_preset("slices").make(op, machine);
  slices.mover = Mover::copy_engine;
  set_size(slices, kGathers[0].tile, 0);
  sweep.add(slices);
}

// In front of an all-to-all, what peers send lands beside the caller's tensor. Compute lanes take
// it there behind their last tile, in a kernel of its own; blocks beside them as it comes.
constexpr int kTakersHome = 4;

void add_slices_taken_home(Sweep& sweep, const Segment& op, const Machine& machine) {
  Schedule slices = find_preset("slices").make(op, machine);
  set_size(slices, kGathers[0].tile, kTakersHome);
  for (const Mover mover : {Mover::epilogue, Mover::comm_blocks}) {
    slices.mover = mover;
    sweep.add(slices);
  }
}

}  // namespace

void Sweep::add(Schedule schedule) {
  schedule.rows = rows_;
  if (std::find(schedules_.begin(), schedules_.end(), schedule) != schedules_.end()) return;
  if (legal(op_, schedule, machine_).empty()) schedules_.push_back(schedule);
}

void Sweep::add_sizes(const Schedule& base) {
  Schedule schedule = base;
  for (const SweptTile& tile : kSweptTiles) {
    for (const int comm_sms : kCommSms) {
      set_size(schedule, tile, comm_sms);
      add(schedule);
    }
  }
}

void Sweep::require_some() const {
  if (!schedules_.empty()) return;
  // What is wrong with an operator is wrong for many presets, and said once.
  std::vector<std::pair<std::string, std::string>> refusals;
  for (const Preset& preset : presets()) {
    Schedule schedule = preset.make(op_, machine_);
    schedule.rows = rows_;
    const std::string why = legal(op_, schedule, machine_).front();
    const auto same = std::ranges::find(refusals, why, &decltype(refusals)::value_type::second);
    if (same == refusals.end()) {
      refusals.emplace_back(preset.name, why);
    } else {
      same->first += fmt::format(", {}", preset.name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [names, why] : refusals) lines.push_back(fmt::format("{}: {}", names, why));
  throw UsageError("no preset can serve this: " + join(lines, "; "));
}

Schedule fused_tiles(const Segment& op, const Machine& machine) {
  if (comes_by_all_to_all(op)) return find_preset("slices").make(op, machine);
  Schedule tiles = find_preset("tiles").make(op, machine);
  tiles.order = op.makes_terms() ? Order::interleaved : Order::arrival;
  return tiles;
}

void set_size(Schedule& schedule, const SweptTile& tile, int comm_sms) {
  schedule.tile_m = tile.m;
  schedule.tile_n = tile.n;
  schedule.comm_sms = comm_sms;
}

void add_usual(Sweep& sweep, const Segment& op, const Machine& machine) {
  for (const Preset& preset : presets()) {
    if (comes_by_all_to_all(op) && preset.name == "tiles") continue;
    sweep.add(preset.make(op, machine));
  }
  Schedule tiles = fused_tiles(op, machine);
  add_splits(sweep, op, machine, tiles);
  for (const FusedPoint& point : op.makes_terms() ? kReductions : kGathers) {
    set_size(tiles, point.tile, point.comm_sms);
    sweep.add(tiles);
  }
  if (comes_by_all_to_all(op)) add_slices_by_copy_engines(sweep, op, machine);
  if (op.exchanges_output()) add_slices_taken_home(sweep, op, machine);
  if (op.makes_terms() || !has_wide_rows(op, machine)) return;
  tiles.order = Order::own_first;
  set_size(tiles, kGathers[0].tile, kGathers[0].comm_sms);
  sweep.add(tiles);
}

void sort_by_prediction(std::vector<Candidate>& candidates) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.predicted_us < b.predicted_us; });
}

std::vector<Schedule> usual_schedules(const Segment& op, const Machine& machine, RowCount rows) {
  Sweep sweep(op, machine, rows);
  add_usual(sweep, op, machine);
  sweep.require_some();
  return sweep.schedules();
}

}  // namespace stretto
