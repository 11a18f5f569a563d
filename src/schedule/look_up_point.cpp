#include "schedule/look_up_point.h"

#include <algorithm>

#include "schedule/legal_rules.h"

namespace stretto {
namespace {

constexpr int kMostBags = 64, kLeastBags = 8, kFewCols = 128;
// So that lanes end together although bags are of different length.
constexpr int kTasksOfLane = 4;

// Of a rank.
int64_t most_tables(const Segment& op) { return RowShards{op.tables, op.ranks}.block(); }

Schedule begin(const Segment& op, const Machine& machine) {
  Schedule schedule;
  schedule.order = Order::plain;
  schedule.partials = op.dtype;
  const int64_t of_table = std::max<int64_t>(kFewCols, op.n / op.tables);
  schedule.tile_n = static_cast<int>(
      std::min<int64_t>(kMaxTile, (of_table + kTileStep - 1) / kTileStep * kTileStep));
  const int64_t at_once = look_ups_at_once(op, schedule.tile_n);
  const int64_t across = (most_tables(op) + at_once - 1) / at_once;
  const int64_t enough = int64_t{kTasksOfLane} * machine.sms;
  schedule.tile_m = kMostBags;
  while (schedule.tile_m > kLeastBags && op.m / schedule.tile_m * across < enough) {
    schedule.tile_m /= 2;
  }
  return schedule;
}

}  // namespace

int64_t look_ups_at_once(const Segment& op, int tile_n) {
  return std::clamp<int64_t>(tile_n * op.tables / op.n, 1, most_tables(op));
}

Schedule look_ups_sequential(const Segment& op, const Machine& machine) {
  return begin(op, machine);
}

Schedule look_ups_copied(const Segment& op, const Machine& machine) {
  Schedule schedule = begin(op, machine);
  schedule.granularity = Granularity::chunk;
  schedule.order = Order::peer_staggered;
  schedule.mover = Mover::copy_engine;
  schedule.sync = Sync::counter;
  // A copy engine is told addresses by the host, which a captured graph repeats.
  schedule.reuse = Reuse::ack;
  return schedule;
}

Schedule look_ups_pushed(const Segment& op, const Machine& machine, Granularity granularity) {
  Schedule schedule = begin(op, machine);
  schedule.granularity = granularity;
  schedule.order = Order::peer_staggered;
  schedule.mover = Mover::epilogue;
  schedule.sync = granularity == Granularity::tile ? Sync::flag : Sync::counter;
  return schedule;
}

}  // namespace stretto
