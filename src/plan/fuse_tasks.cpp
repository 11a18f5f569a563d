// Which tasks stay in registers behind which: as many as a GPU can keep there.
#include "plan/fuse_tasks.h"

#include <algorithm>

#include "plan/fused_faults.h"
#include "plan/normed_rows.h"

namespace stretto {
namespace {

// What goes on with a gemm, as far as what is in registers is taken by then; `last` is the gemm
// where nothing does.
struct Grown {
  Tile tile;
  uint32_t next;  // where the tile behind it may begin
};

// Gemms of ranges of K follow one another, and what stands behind them did not take them from the
// first on. A reduce says by its place for the last one how many it takes; else that one may be
// taken by itself. So a long row of them is not tried from every gemm on.
uint32_t next_begin(const Plan& plan, const Lane& lane, const Tile& tile, uint32_t behind) {
  const auto writes = plan.writes(lane.instrs[tile.gemm]);
  if (behind == lane.instrs.size() || !is_sum(lane.instrs[behind].op) || writes.empty()) {
    return tile.gemm;
  }
  const auto reads = plan.reads(lane.instrs[behind]);
  auto before = std::find(reads.begin(), reads.end(), writes[0]) - reads.begin();
  uint32_t at = tile.gemm;
  for (uint32_t i = tile.gemm; before > 0 && i-- > tile.begin + 1;) {
    if (lane.instrs[i].op != Opcode::gemm) continue;
    at = i;
    --before;
  }
  return before == 0 ? at : tile.gemm;
}

// The first task from `at` on.
uint32_t task_from(const Lane& lane, uint32_t at) {
  while (at < lane.instrs.size() && lane.instrs[at].is_sync()) ++at;
  return at;
}

// From the gemm at `at` on, before the task at `end`.
Grown grow(const Plan& plan, const Lane& lane, uint32_t at, size_t end) {
  TileTask task(plan, lane, at);
  Grown grown{task.tile(), at + 1};
  while (true) {
    const uint32_t next = task_from(lane, task.tile().last + 1);
    if (next >= end || !task.take(next).empty()) {
      if (task.tile().gemm != at) grown.next = next_begin(plan, lane, task.tile(), next);
      return grown;
    }
    if (task.is_whole()) grown.tile = task.tile();
  }
}

// From behind the gemm up to the tile's last task; and none from there to `end`.
void put_words(std::vector<Instr>& instrs, const Tile& tile, uint32_t end) {
  for (uint32_t at = tile.begin + 1; at <= end; ++at) {
    instrs[at].fused = at <= tile.last && instrs[at].is_task();
  }
}

class Fuser {
 public:
  explicit Fuser(Plan& plan) : plan_(plan), reads_(plan) {
    // Of two gemms, what the first leaves in registers was to lie in such a buffer.
    any_kept_ = std::any_of(plan.buffers.begin(), plan.buffers.end(), TileTask::keeps);
  }

  void fuse() {
    forget();
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      find(lane);
      reads_.add(lane);
    }
    while (true) {
      const std::vector<FusedFault> faults = faults_of_memory(plan_, tiles_, reads_);
      if (faults.empty()) break;
      for (const FusedFault& fault : faults) cut(fault.where);
      tiles_ = LaneTiles(plan_).tiles;
    }
    add_norms();
  }

  // Of a plan without words, whose ranks are alike: what nothing speaks against on rank 0 gets its
  // words on all ranks. False where something does, or where a lane is not as rank 0's.
  bool fuse_alike() {
    const auto of_rank = static_cast<uint32_t>(plan_.lanes.size()) / plan_.ranks();
    for (uint32_t lane = 0; lane < of_rank; ++lane) {
      find(lane);
      reads_.add(lane);
    }
    if (!faults_of_memory(plan_, tiles_, reads_).empty()) return false;
    for (uint32_t lane = of_rank; lane < plan_.lanes.size(); ++lane) {
      if (!repeat(lane % of_rank, lane)) return false;
    }
    add_norms();
    return true;
  }

 private:
  // A gemm that something may go on with, and what does: `last` is the gemm where nothing does.
  struct Try {
    uint32_t lane, begin, last, next;
  };

  void forget() {
    for (Lane& lane : plan_.lanes) {
      for (Instr& instr : lane.instrs) instr.fused = false;
    }
  }

  void find(uint32_t l) {
    Lane& lane = plan_.lanes[l];
    first_try_.push_back(tries_.size());
    size_t boundaries = 0;
    bool keeps_tiles = keeps_tiles_at(plan_, 0);
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      any_norm_ |= is_norm(lane.instrs[at].op);
      if (lane.instrs[at].op == Opcode::boundary) {
        keeps_tiles = keeps_tiles_at(plan_, ++boundaries);
      }
      if (!may_begin(lane, at) || !(keeps_tiles || is_routed_product(lane.instrs[at].op))) continue;
      const Grown grown = grow_from(lane, at);
      tries_.push_back({l, at, grown.tile.last, grown.next});
      if (grown.tile.last == at) {
        at = grown.next - 1;
        continue;
      }
      put_words(lane.instrs, grown.tile, grown.tile.last);
      tiles_.push_back({l, grown.tile});
      at = grown.tile.last;
    }
  }

  // Whether the tries of a lane have the same end in its image, which then gets the words.
  bool repeat(uint32_t of, uint32_t image) {
    Lane& lane = plan_.lanes[image];
    const size_t end = of + 1 < first_try_.size() ? first_try_[of + 1] : tries_.size();
    for (size_t i = first_try_[of]; i < end; ++i) {
      const Try& one = tries_[i];
      const Grown grown = grow_from(lane, one.begin);
      if (grown.tile.last != one.last || grown.next != one.next) return false;
      put_words(lane.instrs, grown.tile, grown.tile.last);
    }
    return true;
  }

  bool may_begin(const Lane& lane, uint32_t at) const {
    if (!is_product(lane.instrs[at].op)) return false;
    const uint32_t next = task_from(lane, at + 1);
    return next < lane.instrs.size() && (any_kept_ || !is_product(lane.instrs[next].op));
  }
  // Nothing goes on with most gemms, as the next task says.
  Grown grow_from(const Lane& lane, uint32_t at) const {
    const Instr& next = lane.instrs[task_from(lane, at + 1)];
    if (is_product(next.op) && !TileTask::may_go_on(plan_, lane.instrs[at], next)) {
      return {TileTask(plan_, lane, at).tile(), at + 1};
    }
    return grow(plan_, lane, at, lane.instrs.size());
  }

  // Leaves the task out in which the fault is, and what goes on behind it. Where two faults are in
  // a tile, the earlier one counts.
  void cut(const InstrRef& fault) {
    const auto behind = std::upper_bound(
        tiles_.begin(), tiles_.end(), fault, [](const InstrRef& at, const LaneTile& one) {
          return std::pair(at.lane, at.pos) < std::pair(one.lane, one.tile.begin);
        });
    LaneTile& found = *(behind - 1);
    if (found.tile.last < fault.pos) return;
    Lane& lane = plan_.lanes[found.lane];
    const uint32_t end = found.tile.last;
    found.tile = grow(plan_, lane, found.tile.begin, fault.pos).tile;
    put_words(lane.instrs, found.tile, end);
  }

  void add_norms() {
    if (!any_norm_) return;
    for (Lane& lane : plan_.lanes) {
      for (uint32_t at = 1; at < lane.instrs.size(); ++at) {
        Instr& instr = lane.instrs[at];
        instr.fused |= is_norm(instr.op) && why_not_with_sum(plan_, lane, at).empty();
      }
    }
  }

  Plan& plan_;
  PlanReads reads_;
  std::vector<LaneTile> tiles_;    // in the order of the plan
  std::vector<Try> tries_;         // the same
  std::vector<size_t> first_try_;  // by lane
  bool any_kept_ = false, any_norm_ = false;
};

}  // namespace

void fuse_tasks(Plan& plan) { Fuser(plan).fuse(); }

void fuse_tasks_of_alike_ranks(Plan& plan) {
  if (!Fuser(plan).fuse_alike()) fuse_tasks(plan);
}

}  // namespace stretto
