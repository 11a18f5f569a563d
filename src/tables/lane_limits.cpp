#include "tables/lane_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/buffer_places.h"
#include "plan/tile_task.h"
#include "tables/choice_limits.h"
#include "tables/head_limits.h"
#include "tables/move_limits.h"
#include "tables/operand_limits.h"
#include "tables/task_counts.h"

namespace stretto::cuda {
namespace {

class LaneLimits {
 public:
  LaneLimits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits)
      : plan_(plan),
        sums_(sums),
        serves_(serves),
        limits_(limits),
        heads_(plan),
        moves_(plan),
        choices_(plan, sums),
        operands_(plan, sums),
        counts_(plan) {}

  void look_at(uint32_t l) {
    const Lane& lane = plan_.lanes[l];
    Stretch stretch;
    stretch_ = 0;
    InGemm tasks;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      const bool in_gemm = tasks.pass(instr);
      const bool is_head = is_ahead_of_tiles(instr.op) && !stretch.has_tiles;
      const bool is_move = !in_gemm && instr.kind() != nullptr && !is_head;
      stretch_ += instr.op == Opcode::boundary;
      stretch.pass(instr, {l, at}, is_move);
      if (has_partitions_) heads_.pass({l, at}, stretch_, is_head, stretch.has_tiles);
      moves_.look_at({l, at}, is_move, limits_);
      if (has_partitions_) choices_.look_at({l, at}, limits_);
      stretch.has_tiles = stretch.has_tiles || is_product(instr.op);
      if (!is_product(instr.op)) continue;
      if (plan_.library_at(stretch_)) {
        if (is_routed_product(instr.op)) {
          operands_.look_at({l, at}, sums_.followed_at(l, at), limits_);
        }
        continue;
      }
      const TileSum sum = sums_.of(l, at);
      uint32_t made = sum.position;  // the tile's task makes what stands up to here
      const FollowedTile* const tile = sums_.followed_at(l, at);
      operands_.look_at({l, at}, tile, limits_);
      if (tile != nullptr && at != tile->begin) continue;  // the second product of a task
      if (tile != nullptr) {
        made = tile->last;
        look_at_bias(l, *tile);
      }
      look_at_sum({l, at}, sum, made);
      look_at_place({l, at}, stretch);
    }
  }

  // Once all lanes were looked at.
  void look_at_whole() {
    counts_.add_to(limits_);
    heads_.add_to(limits_);
  }

 private:
  // A lane's instructions since its last boundary, as far as they were passed.
  struct Stretch {
    bool has_waited = false, has_worked = false, has_moved = false, has_tiles = false;
    std::optional<InstrRef> told_early;  // behind waits and before any task

    void pass(const Instr& instr, const InstrRef& at, bool is_move) {
      if (instr.op == Opcode::boundary) *this = {};
      has_waited = has_waited || instr.op == Opcode::wait;
      if (instr.op == Opcode::notify && has_waited && !has_worked && !told_early) told_early = at;
      has_worked = has_worked || instr.is_task();
      has_moved = has_moved || is_move;
    }
  };

  const Instr& instr_at(const InstrRef& at) const { return plan_.lanes[at.lane].instrs[at.pos]; }

  // Those of weights are read in pairs.
  void look_at_bias(uint32_t lane, const FollowedTile& tile) {
    for (const uint32_t at : tile.bias) {
      if (at == 0) continue;
      const Region& row = plan_.reads(instr_at({lane, at}))[1];
      if (row.col0 % 2 == 0 && row.cols() % 2 == 0) continue;
      limits_.add("a row of bias begins and ends at an even column: take an even number of columns",
                  InstrRef{lane, at});
    }
  }

  // Of a gemm, what the task of its tile adds, awaits and tells.
  void look_at_sum(const InstrRef& at, const TileSum& sum, uint32_t made) {
    counts_.count(at, sum.of_ranges != 0 ? sum.first : at.pos, std::max(made, at.pos));
    if (!sum) return;
    const InstrRef reduce{at.lane, sum.position};
    if (sum.others != 0) look_at_ranges({at.lane, sum.of_ranges});
    if (sum.has_residual) {
      const Buffer& residual = plan_.buffers[plan_.reads(instr_at(reduce)).back().buffer];
      if (std::string why = why_no_map(residual); !why.empty()) {
        limits_.add(std::move(why), reduce);
      }
    }
    if (sum.of_ranks != 0 && instr_at(reduce).num_reads != sums_.needs()[stretch_].adds + 1) {
      limits_.add("all tiles between two boundaries must be added to equally many sums of others",
                  reduce);
    }
    if (serves_ && sum.has_residual) {
      limits_.add("runs of fewer rows add no residual to tiles: take rows=fixed", reduce);
    }
    if (serves_ && sum.stores_before()) {
      limits_.add("runs of fewer rows add to whole tiles only; rows=bucket cuts them at owners",
                  reduce);
    }
  }

  // Of a reduce of ranges of K, from each to the next: GemmSplit::step.
  void look_at_ranges(const InstrRef& at) {
    const std::span<const Region> ranges = plan_.reads(instr_at(at));
    const Buffer& buffer = plan_.buffers[ranges[0].buffer];
    const auto rows = static_cast<uint64_t>(ranges[1].row0 - ranges[0].row0);
    constexpr uint64_t kMostBytes = uint64_t{UINT32_MAX} * 16;
    if (rows * row_bytes_of(buffer) <= kMostBytes) return;
    limits_.add(fmt::format("sums of ranges of K lie {} bytes apart, at most {} are served: take "
                            "split-k=1 or a smaller shape",
                            rows * row_bytes_of(buffer), kMostBytes),
                at);
  }

  // Of a gemm, behind what it stands.
  void look_at_place(const InstrRef& at, const Stretch& stretch) {
    if (stretch.has_moved) {
      limits_.add("between boundaries a compute lane moves data only after its last tile", at);
    }
    if (stretch.told_early) {
      limits_.add("a compute lane notifies at a boundary or after a task", stretch.told_early);
    }
  }

  const Plan& plan_;
  const TileSums& sums_;
  const bool serves_, has_partitions_ = !plan_.partitions.empty();
  LimitList& limits_;
  HeadLimits heads_;
  const MoveLimits moves_;
  const ChoiceLimits choices_;
  OperandLimits operands_;
  TaskCounts counts_;
  size_t stretch_ = 0;  // of the lane that is looked at
};

}  // namespace

void add_lane_limits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits) {
  LaneLimits lanes(plan, sums, serves, limits);
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const LaneKind kind = plan.lanes[l].kind;
    if (kind == LaneKind::compute || kind == LaneKind::comm) lanes.look_at(l);
  }
  lanes.look_at_whole();
}

}  // namespace stretto::cuda
