// The happens-before history of a draft that runs several times, given what each instruction
// waits for.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "order/clock_budget.h"
#include "stretto/lane_clocks.h"
#include "stretto/lower.h"
#include "sync/alike_ranks.h"

namespace stretto {

class RunHistory {
 public:
  // Where ranks are alike, what is asked of and told about instructions is rank 0's. `joints` are
  // sets of instructions, each of one rank: once a run has ended, an event stands for the ends of
  // each of them, so that many who wait for all of a set need not name them. Not where ranks are
  // alike.
  explicit RunHistory(const Draft& draft, const AlikeRanks* alike = nullptr,
                      std::vector<std::vector<uint32_t>> joints = {});

  // Executes the next run on all ranks. Instruction `at` (a position in Draft::program) may start
  // when all of needs(at) of this run have ended. Once they have, causes(at) names the events that
  // are to be recorded as known to it; it sees the clocks as they are just before. Then told(at,
  // news), when given, hears which of them, by index, were news (see LaneClocks::append).
  void run(const std::function<std::span<const uint32_t>(uint32_t at)>& needs,
           const std::function<std::span<const Event>(uint32_t at)>& causes,
           const std::function<void(uint32_t at, std::span<const uint32_t> news)>& told = {});

  int runs() const { return static_cast<int>(events_.size()); }
  Event event(int run, uint32_t at) const {
    return {draft_.program[at].lane, events_[static_cast<size_t>(run)][home(at)]};
  }
  // The end of all of joint `number` in an ended run.
  Event joint(int run, uint32_t number) const {
    return {static_cast<uint32_t>(draft_.plan.lanes.size()) + number,
            static_cast<uint32_t>(run) + 1};
  }
  const LaneClocks& clocks() const { return clocks_; }
  const AlikeRanks* alike() const { return alike_; }
  // Program position of the instruction at `pos` of `lane`.
  uint32_t position(uint32_t lane, uint32_t pos) const { return positions_[lane][pos]; }

 private:
  uint32_t home(uint32_t at) const { return alike_ ? alike_->home(at) : at; }

  const Draft& draft_;
  const AlikeRanks* alike_;
  std::vector<std::vector<uint32_t>> joints_;  // each has a lane of its own, behind the plan's
  LaneClocks clocks_;
  ClockBudget budget_{"make", third_of_memory()};
  std::vector<std::vector<uint32_t>> positions_;
  std::vector<std::vector<uint32_t>> events_;  // by run and program position: its seq
};

}  // namespace stretto
