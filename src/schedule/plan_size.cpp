#include "schedule/plan_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/legal_rules.h"
#include "schedule/look_up_point.h"

namespace stretto {
namespace {

double pieces(int64_t size, int piece) {
  return std::ceil(static_cast<double>(size) / static_cast<double>(piece));
}

// Of a source's tokens, as lower/routed.h has them: entries that no routing exceeds, of which twice
// as many as are expected are tasks of their own, and others share one.
double tasks_of_entries(double choices, double experts, double all_experts, int tile_m) {
  constexpr double kSlack = 2, kSpares = 16;
  const double most = choices / tile_m + std::min(choices, experts);
  const double expected = choices * experts / all_experts / tile_m + std::min(choices, experts);
  const double single = std::min(most, kSlack * expected);
  return single + std::ceil((most - single) / kSpares);
}

// In each tile of an entry are products, what follows them, and waits. Where flags are awaited,
// lanes of tiles await those of movers besides.
double estimate_routed(const Segment& op, const Schedule& schedule) {
  constexpr double kLanes = 128;  // about as many as GPUs have
  const bool by_source = schedule.granularity == Granularity::chunk && op.ranks > 1;
  const int64_t sources = by_source ? op.ranks : 1;
  const int64_t tokens = by_source ? op.row_shards().block() : op.m;
  const int64_t experts =
      op.kind.weight == Held::experts ? (op.experts + op.ranks - 1) / op.ranks : op.experts;
  const double entries =
      static_cast<double>(sources) *
      tasks_of_entries(static_cast<double>(tokens * op.top_k), static_cast<double>(experts),
                       static_cast<double>(op.experts), schedule.tile_m);
  const double tiles = entries * (op.only_moves() ? 1 : pieces(op.product_cols(), schedule.tile_n));
  const double movers = static_cast<double>(op.ranks) * std::max(1, schedule.comm_sms);
  const double of_source = std::max(1, schedule.comm_sms);
  const double lanes = std::min(kLanes * static_cast<double>(sources), tiles);
  const bool awaits = schedule.sync != Sync::event && op.kind.in != Edge::none && !op.only_moves();
  const double waits = awaits ? lanes * (by_source ? of_source : movers) : 0;
  const double sums =
      op.kind.out == Edge::none
          ? 0
          : movers * pieces(op.local_n() * std::max(1, op.weights), schedule.tile_n);
  const double of_tile = schedule.sync == Sync::event ? 3 : 2 + 2 * op.weights;
  return op.ranks * (tiles * of_tile + waits + 3 * movers + 5 * sums);
}

// What looks up in a table for some bags, is told of, and taken home.
double estimate_look_ups(const Segment& op, const Schedule& schedule) {
  const RowShards shards = op.row_shards();
  const double blocks = op.ranks * pieces(shards.block(), schedule.tile_m);
  const double tasks = blocks * pieces(RowShards{op.tables, op.ranks}.block(),
                                       look_ups_at_once(op, schedule.tile_n));
  return op.ranks * (6 * tasks + 4.0 * op.ranks * std::max(1, schedule.comm_sms));
}

// Ranks cut their rows in as many blocks as they have lanes; a gather sends each to all ranks.
double estimate_rows(const Operator& op, const OperatorSegment& segment, const Machine& machine) {
  const bool is_edge = segment.is_edge();
  const int of = is_edge ? segment.input : op.stage(segment.stages[0]).out;
  const double blocks =
      static_cast<double>(std::min<int64_t>(op.tensor(of).rows, std::max(1, machine.sms)));
  return op.ranks * blocks * (is_edge ? op.ranks : static_cast<double>(segment.stages.size()));
}

}  // namespace

double estimate_instrs(std::span<const Operator* const> parts,
                       const std::vector<Schedule>& products, const Machine& machine) {
  double sum = 0;
  for (const Operator* const op : parts) {
    size_t product = 0;
    for (const OperatorSegment& segment : op->segments) {
      sum += segment.product ? estimate_instrs(*segment.product, products[product++])
                             : estimate_rows(*op, segment, machine);
    }
  }
  return sum;
}

std::string why_too_many_instrs(std::span<const Operator* const> parts,
                                const OperatorSchedule& schedule, const Machine& machine) {
  const double size = estimate_instrs(parts, schedule.products, machine);
  if (size <= kMaxPlanInstrs) return {};
  std::vector<Schedule> largest = schedule.products;
  for (Schedule& one : largest) one.tile_m = one.tile_n = kMaxTile;
  const bool tiles_help = estimate_instrs(parts, largest, machine) <= kMaxPlanInstrs;
  const std::string of_products =
      largest.size() < 2 ? "" : fmt::format(" for {} products", largest.size());
  const std::string of_parts =
      parts.size() < 2 ? "" : fmt::format(" in {} parts of the rows", parts.size());
  return fmt::format(
      "a plan of about {:.0f} million instructions{}{}; at most {:.0f} million are served: take "
      "{}{}, or cut the graph into several",
      size / 1e6, of_products, of_parts, kMaxPlanInstrs / 1e6, parts.size() < 2 ? "" : "split=1, ",
      tiles_help ? "larger tiles" : "fewer ranks or chunks");
}

double estimate_instrs(const Segment& op, const Schedule& schedule) {
  if (op.looks_up()) return estimate_look_ups(op, schedule);
  if (op.is_routed()) return estimate_routed(op, schedule);
  const double ranks = op.ranks;
  const bool own = op.kind.weight == Held::whole;
  const double rows = static_cast<double>(op.local_m());
  // Owners and chunks cut tile rows where they begin.
  const double cuts = std::min(
      rows, (own ? 1 : ranks) * (schedule.granularity == Granularity::chunk ? schedule.chunks : 1));
  const double rows_between = std::ceil(rows / cuts);
  const double tile_rows =
      std::min({rows, pieces(op.local_m(), schedule.tile_m) + cuts,
                cuts * std::ceil(rows_between / static_cast<double>(schedule.tile_m))});
  // Where columns have owners, they cut tiles too.
  const double col_owners = op.exchanges_output() ? ranks : 0;
  const double tiles = tile_rows * (pieces(op.product_cols(), schedule.tile_n) + col_owners);
  // Of every rank: its GEMM tiles, the collectives or copies of its shares, and barriers.
  double per_rank = tiles + 2 * cuts + ranks;
  // A range is a task that notifies; who adds waits for each.
  if (schedule.split_k > 1) per_rank += tiles * 3 * schedule.split_k;
  if (op.ranks == 1) return op.teams * per_rank;
  if (op.exchanges()) {
    // A piece is sent to its owner and, of a result, copied there, in as many parts as there are
    // movers; each is told of and awaited.
    const double movers = std::max(1, schedule.comm_sms);
    per_rank += std::max(tiles, tile_rows * ranks * movers) * 6;
    const bool awaits_each = op.exchanges_input() && schedule.sync == Sync::flag;
    if (awaits_each) per_rank += tiles * ranks * movers;
    if (schedule.k_phases > 1) per_rank += tiles * 2 * (ranks + 1);
  } else if (op.sends_tiles()) {
    // A tile is notified once and waited for once by each rank that reduces it.
    const double reducers = schedule.reduction == Reduction::one_shot ? ranks : 1;
    per_rank += tiles * (2 * reducers + 1 + reducers / ranks);
    if (schedule.mover == Mover::comm_blocks || schedule.mover == Mover::copy_engine) {
      per_rank += tiles * 3 * reducers;
    }
  } else {
    // A stripe is pushed in as many pieces as there are movers; each tells every peer.
    const double movers = std::max(1, schedule.comm_sms);
    // With phases each of them is a piece, and a task of tiles that adds what was before.
    const double phases = std::max(1, schedule.k_phases);
    const double stripes = tile_rows / ranks + 1;
    per_rank += stripes * phases * movers * (1 + ranks);
    per_rank += tiles * phases * (schedule.sync == Sync::flag ? movers : 1);
    if (phases > 1 && schedule.split_k == 1) per_rank += tiles * (phases + op.weights);
  }
  return op.teams * ranks * per_rank;
}

std::string suggest_tile(const Segment& op, const Schedule& schedule, int most) {
  Schedule larger = schedule;
  while (estimate_instrs(op, larger) > kMaxPlanInstrs) {
    int& side =
        larger.tile_m <= larger.tile_n && larger.tile_m < most ? larger.tile_m : larger.tile_n;
    if (side >= most) break;
    side = std::min(most, 2 * side);
  }
  return fmt::format("{}x{}", larger.tile_m, larger.tile_n);
}

}  // namespace stretto
