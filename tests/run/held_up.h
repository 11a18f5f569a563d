// What a plan that lacks a notify leaves waiting for ever, from the plan alone: what an error on
// GPUs must say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "streams/stuck_wait.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// Runs the lanes of a plan without their work until nothing moves any more.
class HeldUpRuns {
 public:
  HeldUpRuns(const Plan& plan, int runs) : plan_(plan), runs_(runs), at_(plan.lanes.size(), 0) {
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::notify) {
          per_run_[{instr.rank, instr.signal.array, instr.signal.index}] += instr.amount;
        }
      }
    }
    run_of_.resize(static_cast<size_t>(plan.ranks()), 0);
    while (move_all() || end_runs()) {
    }
  }

  // Of lanes that have not come to their end, every wait before it that is not over: the lanes
  // stand at some of them, and would come to the others.
  std::vector<StuckWait> waits() const {
    std::vector<StuckWait> waits;
    for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
      const Lane& lane = plan_.lanes[l];
      if (run_of_[lane.rank] == runs_) continue;
      for (size_t i = at_[l]; i < lane.instrs.size(); ++i) {
        const Instr& instr = lane.instrs[i];
        if (instr.op != Opcode::wait || has_come(lane, instr)) continue;
        waits.push_back({lane.rank, l, static_cast<uint32_t>(i), instr.amount,
                         instr.amount - missing(lane, instr), true});
      }
    }
    return waits;
  }

 private:
  using Counter = std::tuple<uint16_t, uint16_t, int32_t>;  // rank, array, index

  int copy_of(const SignalRef& signal, int run) const {
    return run % plan_.signals[signal.array].copies;
  }
  int64_t missing(const Lane& lane, const Instr& wait) const {
    const int run = run_of_[lane.rank] - wait.lag;
    if (run < 0) return 0;
    const Counter counter{lane.rank, wait.signal.array, wait.signal.index};
    const auto total = [&](const auto& map, const auto& key) {
      const auto found = map.find(key);
      return found == map.end() ? int64_t{0} : found->second;
    };
    const int64_t before = run / plan_.signals[wait.signal.array].copies;
    return before * total(per_run_, counter) + wait.amount -
           total(seen_, std::pair(counter, copy_of(wait.signal, run)));
  }
  bool has_come(const Lane& lane, const Instr& wait) const { return missing(lane, wait) <= 0; }

  bool all_at_boundary(const Lane& of, int32_t id) const {
    for (size_t l = 0; l < plan_.lanes.size(); ++l) {
      const Lane& lane = plan_.lanes[l];
      if (lane.rank != of.rank || lane.kind != LaneKind::compute) continue;
      const auto boundary = std::find_if(
          lane.instrs.begin(), lane.instrs.end(),
          [&](const Instr& instr) { return instr.op == Opcode::boundary && instr.id == id; });
      if (boundary - lane.instrs.begin() > static_cast<std::ptrdiff_t>(at_[l])) return false;
    }
    return true;
  }

  // False: the lane cannot go on.
  bool step(size_t l) {
    const Lane& lane = plan_.lanes[l];
    const int run = run_of_[lane.rank];
    const Instr& instr = lane.instrs[at_[l]];
    if (instr.op == Opcode::wait && !has_come(lane, instr)) return false;
    if (instr.op == Opcode::boundary && !all_at_boundary(lane, instr.id)) return false;
    if (instr.op == Opcode::collective) {
      auto& joined = joined_[{run, instr.id}];
      if (std::find(joined.begin(), joined.end(), lane.rank) == joined.end()) {
        joined.push_back(lane.rank);
      }
      if (static_cast<int>(joined.size()) < plan_.ranks()) return false;
    }
    if (instr.op == Opcode::notify) {
      seen_[{{instr.rank, instr.signal.array, instr.signal.index}, copy_of(instr.signal, run)}] +=
          instr.amount;
    }
    ++at_[l];
    return true;
  }

  bool move_all() {
    bool any = false;
    for (size_t l = 0; l < plan_.lanes.size(); ++l) {
      if (run_of_[plan_.lanes[l].rank] == runs_) continue;
      while (at_[l] < plan_.lanes[l].instrs.size() && step(l)) any = true;
    }
    return any;
  }

  bool end_runs() {
    bool any = false;
    for (uint16_t rank = 0; rank < plan_.ranks(); ++rank) {
      bool is_over = run_of_[rank] < runs_;
      for (size_t l = 0; l < plan_.lanes.size(); ++l) {
        is_over =
            is_over && (plan_.lanes[l].rank != rank || at_[l] == plan_.lanes[l].instrs.size());
      }
      if (!is_over) continue;
      ++run_of_[rank];
      any = true;
      for (size_t l = 0; l < plan_.lanes.size(); ++l) {
        if (plan_.lanes[l].rank == rank) at_[l] = 0;
      }
    }
    return any;
  }

  const Plan& plan_;
  const int runs_;
  std::vector<size_t> at_;                           // by lane
  std::vector<int> run_of_;                          // by rank
  std::map<Counter, int64_t> per_run_;               // what all notifies of a run add
  std::map<std::pair<Counter, int>, int64_t> seen_;  // by instance
  std::map<std::pair<int, int32_t>, std::vector<uint16_t>> joined_;  // by run and collective
};

}  // namespace stretto::runtime
