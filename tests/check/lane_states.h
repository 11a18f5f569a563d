// The states that the lanes of a small plan can be in over a few runs, and how each leads to the
// next. Knows nothing of clocks or thresholds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "stretto/plan.h"

namespace stretto {

// How far every lane has come, in half steps through all runs: an instruction has begun after the
// first half and is done after the second. Only collectives and boundaries rest in between.
using LaneState = std::u16string;

class LaneStates {
 public:
  LaneStates(const Plan& plan, int runs);

  LaneState start() const { return LaneState(plan_.lanes.size(), 0); }
  // Moves the lane by one instruction, or by half of one that meets others; false: it must wait.
  bool step(LaneState& state, size_t lane) const;

  bool done(const LaneState& state, size_t lane, int run, size_t pos) const {
    return at(state, lane) > static_cast<size_t>(run) * length(lane) + pos;
  }
  bool begun(const LaneState& state, size_t lane, int run, size_t pos) const {
    return state[lane] > 2 * (static_cast<size_t>(run) * length(lane) + pos);
  }
  bool finished(const LaneState& state) const;  // all runs
  bool rank_has_ended(const LaneState& state, uint16_t rank, int run) const;
  bool rank_has_begun(const LaneState& state, uint16_t rank, int run) const;

 private:
  using Counter = std::tuple<uint16_t, int32_t, uint16_t>;

  Counter counter(size_t lane, const Instr& instr) const {
    return {instr.signal.array, instr.signal.index,
            instr.op == Opcode::notify ? instr.rank : plan_.lanes[lane].rank};
  }
  size_t length(size_t lane) const { return plan_.lanes[lane].instrs.size(); }
  size_t at(const LaneState& state, size_t lane) const { return state[lane] / 2u; }
  int run_of(const LaneState& state, size_t lane) const {
    return length(lane) == 0 ? runs_ : static_cast<int>(at(state, lane) / length(lane));
  }
  bool passes(const LaneState& state, size_t lane, int run, const Instr& wait) const;
  bool all_have_come(const LaneState& state, size_t lane, int run, const Instr& meeting) const;

  const Plan& plan_;
  const int runs_;
  std::map<Counter, int64_t> totals_;  // of what a run notifies
};

}  // namespace stretto
