// The bounds of every number: alone, on the machine, and of the plan that comes out.
#include "core/text_limits.h"
#include "schedule/legal_rules.h"
#include "schedule/plan_size.h"

namespace stretto {
namespace {

constexpr int kMaxChunks = 1024;
constexpr int kMaxSwizzle = 1024;
constexpr int kMaxGroups = 1024;
constexpr int kMaxGroupSize = 1 << 20;
constexpr int kMaxSplitK = 16, kMaxPhases = 16;

// Every range of K has at least one step, and every range's sums of all rows are kept.
void check_ranges(Case& c, std::string_view name, int ranges, int most) {
  if (ranges < 1 || ranges > most) {
    c.refuse("{}={}; it must be from 1 to {}", name, ranges, most);
    return;
  }
  if (ranges == 1 || !c.op_good) return;
  const int64_t steps = (c.op.local_k() + kSplitStep - 1) / kSplitStep;
  if (ranges > steps) {
    c.refuse("{0}={1} for {2} of K on a rank, which has {3} of {4} columns: take {0}={5}{6}", name,
             ranges, c.op.local_k(), steps == 1 ? "one step" : fmt::format("{} steps", steps),
             kSplitStep, steps, steps == 1 ? "" : " or less");
  }
  if (c.op.makes_terms() && !c.op.shares_of(c.op.k).are_even()) {
    c.refuse(
        "{0}={1} where the last rank has fewer columns of K: take {0}=1, or a K that {2} ranks "
        "divide",
        name, ranges, c.op.ranks);
  }
  if (c.op.m > INT32_MAX / ranges) {
    c.refuse("{0}={1} for m={2} keeps more than {3} rows of partial sums: take {0}=1", name, ranges,
             c.op.m, INT32_MAX);
  }
}

}  // namespace

void check_numbers(Case& c) {
  const Schedule& s = c.schedule;
  const auto check_tile = [&](std::string_view side, int size) {
    if (size < kMinTile || size > kMaxTile || size % kTileStep != 0) {
      c.refuse("a tile of {} {}; it must be a multiple of {} from {} to {}", size, side, kTileStep,
               kMinTile, kMaxTile);
    }
  };
  check_tile("rows", s.tile_m);
  check_tile("columns", s.tile_n);
  if (s.swizzle < 1 || s.swizzle > kMaxSwizzle) {
    c.refuse("swizzle={}; it must be from 1 to {}", s.swizzle, kMaxSwizzle);
  }
  if (s.chunks < 1 || s.chunks > kMaxChunks) {
    c.refuse("chunks={}; it must be from 1 to {}", s.chunks, kMaxChunks);
  } else if (s.chunks > 1 && s.granularity != Granularity::chunk) {
    c.refuse("chunks={} cuts nothing at granularity={}: take granularity=chunk or chunks=1",
             s.chunks, to_string(s.granularity));
  }
  const bool of_chunks = s.granularity == Granularity::chunk && s.sync == Sync::event;
  if (!s.groups.empty() && s.granularity != Granularity::waves && !of_chunks) {
    c.refuse(
        "groups mean nothing at granularity={} with sync={}: take granularity=waves, "
        "granularity=chunk with sync=event, or groups=auto",
        to_string(s.granularity), to_string(s.sync));
  }
  if (s.groups.size() > static_cast<size_t>(kMaxGroups)) {
    c.refuse("{} groups; at most {} can be given", s.groups.size(), kMaxGroups);
  } else if (s.groups.size() > kMaxGroups / 2) {  // of fewer the text is never so long
    const size_t length = to_string(s).size();
    if (length > kMaxScheduleLength) {
      c.refuse("a schedule of {} characters; at most {} are kept in plans: take fewer groups",
               length, kMaxScheduleLength);
    }
  }
  for (const int size : s.groups) {
    if (size >= 1 && size <= kMaxGroupSize) continue;
    c.refuse("a group of {} {}; each must have from 1 to {}", size, of_chunks ? "chunks" : "waves",
             kMaxGroupSize);
    break;
  }
}

void check_ranges_of_k(Case& c) {
  check_ranges(c, "split-k", c.schedule.split_k, kMaxSplitK);
  check_ranges(c, "k-phases", c.schedule.k_phases, kMaxPhases);
}

namespace {

// What is lowered for one team holds for each: it takes its own ranks for the first of a node.
void check_teams(Case& c) {
  if (c.op.teams == 1 || c.op.ranks == 1) return;
  const int per_node = c.machine.ranks_per_node;
  if (c.op.ranks * c.op.teams <= per_node) return;  // all in one
  if (per_node > 0 && per_node % c.op.ranks != 0 && c.op.ranks % per_node != 0) {
    c.refuse("teams of {} ranks on nodes of {}: take teams that are parts of nodes, or whole nodes",
             c.op.ranks, per_node);
  }
}

}  // namespace

void check_machine(Case& c) {
  const Schedule& s = c.schedule;
  const Machine& machine = c.machine;
  if (const int ranks = c.op.ranks * c.op.teams; ranks > machine.ranks()) {
    c.refuse("{} ranks on {}, which has {}: take ranks={} or a larger machine", ranks, machine.name,
             machine.ranks(), machine.ranks());
  }
  check_teams(c);
  if (s.comm_sms < 0) c.refuse("comm-sms={}; it must be at least 0", s.comm_sms);
  if (s.comm_sms >= machine.sms) {
    c.refuse("comm-sms={} leaves no SM to compute on: {} has {}, take at most {}", s.comm_sms,
             machine.name, machine.sms, machine.sms - 1);
  }
  if (s.mover == Mover::comm_blocks && s.comm_sms == 0) {
    c.refuse("mover=comm-blocks without an SM to run on: take comm-sms=1 or more");
  }
  // A persistent GEMM that waits for NCCL must leave it room, or neither ever ends.
  if (s.mover == Mover::nccl && s.sync != Sync::event && !c.op.makes_terms() &&
      s.comm_sms < machine.nccl_sms) {
    c.refuse(
        "tiles wait for NCCL, which needs {} SMs of its own on {}: take comm-sms={} or sync=event",
        machine.nccl_sms, machine.name, machine.nccl_sms);
  }
}

void check_size(Case& c) {
  const bool tile_good = c.schedule.tile_m >= kMinTile && c.schedule.tile_n >= kMinTile;
  if (!c.op_good || !tile_good) return;  // others cannot be estimated
  const double size = estimate_instrs(c.op, c.schedule);
  if (size <= kMaxPlanInstrs) return;
  Schedule largest = c.schedule;
  largest.tile_m = largest.tile_n = kMaxTile;
  const bool tile_helps = estimate_instrs(c.op, largest) <= kMaxPlanInstrs;
  c.refuse(
      "a plan of about {:.0f} million instructions; at most {:.0f} million are served: take {}",
      size / 1e6, kMaxPlanInstrs / 1e6,
      tile_helps ? "a larger tile, like " + suggest_tile(c.op, c.schedule, kMaxTile)
                 : "fewer ranks or chunks, or a smaller operator");
}

}  // namespace stretto
