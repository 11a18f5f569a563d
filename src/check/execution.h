// Executes a plan's synchronisation over several runs and records what happens before what.
//
// Counters only grow, so which lanes can go on does not depend on the order in which they do: one
// greedy execution finds every deadlock there is. A wait counts what was notified in its own run
// and before; that later runs cannot pass it by is check_early_thresholds' to prove. What a passed
// wait knows are the notifies without which the counter could not have got there, whatever else was
// notified up to the end of its run.
//
// Events are those of event_numbers.h, and those of joints.h.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "check/counters.h"
#include "check/event_numbers.h"
#include "check/instr_index.h"
#include "check/joints.h"
#include "order/clock_budget.h"
#include "stretto/lane_clocks.h"
#include "stretto/plan.h"

namespace stretto::checker {

class Execution {
 public:
  // Ranks must agree about collectives and boundaries.
  Execution(const Plan& plan, const InstrIndex& index, const Counters& counters, int runs);

  void run();

  // Where a lane stands. `pos` is the next instruction; past the last while the other lanes of its
  // rank have not ended the run.
  struct Place {
    int run = 0;
    uint32_t pos = 0;
  };
  bool finished() const { return finished_lanes_ == plan_.lanes.size(); }
  Place place(uint32_t lane) const { return {lanes_[lane].run, lanes_[lane].pos}; }
  int64_t value(uint32_t counter, int run) const {
    return values_[counter * static_cast<size_t>(runs_) + static_cast<size_t>(run)];
  }

  int runs() const { return runs_; }
  // When an instruction of run number `run` has taken effect; a task is done then.
  Event event(uint32_t lane, uint32_t instr, int run) const {
    return {lane, static_cast<uint32_t>(run) * numbers_.per_run(lane) + numbers_.of(instr)};
  }
  // When a task begins to touch memory.
  Event begin(uint32_t lane, uint32_t instr, Opcode op, int run) const {
    Event event = this->event(lane, instr, run);
    if (op == Opcode::collective) --event.seq;
    return event;
  }
  // When the caller reads the outputs of the first run on `rank`.
  Event caller(int rank) const {
    return {static_cast<uint32_t>(plan_.lanes.size()) + static_cast<uint32_t>(rank), 1};
  }
  // Tasks and boundaries, in the order in which run 0 has executed them.
  const std::vector<uint32_t>& in_order() const { return in_order_; }
  const LaneClocks& clocks() const { return clocks_; }

 private:
  struct LaneState {
    int run = 0;
    uint32_t pos = 0;
    std::vector<Event> news;  // what waits have told since the lane's last event
  };

  void advance(uint32_t lane);
  bool pass_wait(uint32_t lane);
  void learn(uint32_t lane, uint32_t counter, const Instr& wait);
  void notify(uint32_t lane, uint32_t instr, const Instr& notify);
  // The joint of the counter ends in this run, in which all has been added to it.
  void end_joint(uint32_t counter, int run);
  void meet(std::vector<uint32_t>& arrived, uint32_t lane, size_t expected);
  void meet_at_collective(uint32_t lane, const Instr& instr);
  void end_run(uint32_t lane);
  // Makes sure that the lane's event number `event` of this run is there.
  void reach_event(uint32_t lane, uint32_t event);
  void append_event(uint32_t lane);

  static constexpr int64_t kNobodyWaits = INT64_MAX;

  const Plan& plan_;
  const InstrIndex& index_;
  const Counters& counters_;
  const int runs_;
  const EventNumbers numbers_;
  const Joints joints_;
  std::vector<Event> joint_events_;  // by joint and run; seq 0: it has not ended
  LaneClocks clocks_;
  std::vector<uint32_t> in_order_;
  std::vector<LaneState> lanes_;
  std::vector<uint32_t> ready_;
  std::vector<int64_t> values_;  // by counter and run: added in this and earlier runs
  std::vector<int64_t> least_;  // as values_: the least that a blocked lane awaits, or kNobodyWaits
  // Blocked lanes: (place in values_, value awaited, lane).
  std::set<std::tuple<size_t, int64_t, uint32_t>> blocked_;
  std::vector<uint32_t> compute_lanes_, rank_lanes_;         // by rank: how many
  std::vector<std::vector<uint32_t>> at_boundary_, at_end_;  // by rank: lanes that have arrived
  // By id and the first rank that joins.
  std::map<std::pair<int32_t, int>, std::vector<uint32_t>> at_collective_;
  size_t finished_lanes_ = 0;
  ClockBudget budget_{"check", size_t{4} << 30};
};

}  // namespace stretto::checker
