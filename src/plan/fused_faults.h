// What of the word `fused` a GPU cannot do.
#pragma once

#include <string>
#include <vector>

#include "plan/tile_task.h"

namespace stretto {

// Whether tasks may go on with tiles of gemms behind so many boundaries: a library leaves them in
// memory.
inline bool keeps_tiles_at(const Plan& plan, size_t behind) {
  return !plan.library_at(behind) || plan.few_rows_at(behind);
}

// A task that cannot go on with what the one before it has left in registers; `what` as other
// faults say it.
struct FusedFault {
  InstrRef where;
  std::string what;
};

struct LaneTile {
  uint32_t lane = 0;
  Tile tile;
};

// Those of all lanes as the words have it, and what is wrong with the words: as far as one lane
// tells, in the order of the plan.
struct LaneTiles {
  explicit LaneTiles(const Plan& plan);

  std::vector<LaneTile> tiles;  // in the order of the plan; only those with fused tasks
  std::vector<FusedFault> faults;
};

// Who reads what, told lane by lane in the order of the plan: of all lanes, or, where ranks are
// alike (sync/alike_ranks.h), of rank 0's.
class PlanReads {
 public:
  explicit PlanReads(const Plan& plan) : plan_(plan), by_products_(plan.buffers.size(), false) {}

  void add(uint32_t lane);
  uint32_t lanes() const { return lanes_; }
  bool are_all() const { return lanes_ == plan_.lanes.size(); }

  // Calls visit(region, task) for every read of one of these buffers, in the order of the plan.
  template <typename Visit>
  void for_each_of(const std::vector<bool>& buffers, const Visit& visit) const {
    const auto look_at = [&](const InstrRef& task) {
      for (const Region& read : plan_.reads(plan_.lanes[task.lane].instrs[task.pos])) {
        if (buffers[read.buffer]) visit(read, task);
      }
    };
    bool any_product = false;
    for (size_t i = 0; i < buffers.size(); ++i) any_product |= buffers[i] && by_products_[i];
    if (!any_product) {
      for (const InstrRef& task : others_) look_at(task);
      return;
    }
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      for (uint32_t at = 0; at < plan_.lanes[lane].instrs.size(); ++at) look_at({lane, at});
    }
  }

 private:
  const Plan& plan_;
  uint32_t lanes_ = 0;
  // Products are most of a plan, and seldom read what a task leaves in registers.
  std::vector<bool> by_products_;  // by buffer: one reads it
  std::vector<InstrRef> others_;   // tasks that are no products, and read something
};

// What else is wrong: what stays in registers is not in memory, where another task looks for it, or
// is told of later than somebody waits for it. `tiles` are those of the lanes that `reads` are of,
// and have no faults by themselves. Of rank 0's lanes there may be more than of all, never less.
std::vector<FusedFault> faults_of_memory(const Plan& plan, const std::vector<LaneTile>& tiles,
                                         const PlanReads& reads);

}  // namespace stretto
