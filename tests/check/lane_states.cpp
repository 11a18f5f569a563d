#include "check/lane_states.h"

namespace stretto {

LaneStates::LaneStates(const Plan& plan, int runs) : plan_(plan), runs_(runs) {
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const Instr& instr : plan.lanes[lane].instrs) {
      if (instr.op == Opcode::notify) totals_[counter(lane, instr)] += instr.amount;
    }
  }
}

bool LaneStates::step(LaneState& state, size_t lane) const {
  const int run = run_of(state, lane);
  if (run >= runs_) return false;
  const size_t pos = at(state, lane) % length(lane);
  const uint16_t rank = plan_.lanes[lane].rank;
  const bool halfway = state[lane] % 2 != 0;
  if (pos == 0 && !halfway && run > 0 && !rank_has_ended(state, rank, run - 1)) return false;
  const Instr& instr = plan_.lanes[lane].instrs[pos];
  if (instr.op == Opcode::wait && !passes(state, lane, run, instr)) return false;
  if (instr.op != Opcode::boundary && instr.op != Opcode::collective) {
    state[lane] = static_cast<char16_t>(state[lane] + 2);
    return true;
  }
  if (halfway && !all_have_come(state, lane, run, instr)) return false;
  state[lane] = static_cast<char16_t>(state[lane] + 1);
  return true;
}

bool LaneStates::finished(const LaneState& state) const {
  for (size_t lane = 0; lane < state.size(); ++lane) {
    if (run_of(state, lane) < runs_) return false;
  }
  return true;
}

bool LaneStates::rank_has_ended(const LaneState& state, uint16_t rank, int run) const {
  for (size_t lane = 0; lane < state.size(); ++lane) {
    if (plan_.lanes[lane].rank == rank && run_of(state, lane) <= run) return false;
  }
  return true;
}

bool LaneStates::rank_has_begun(const LaneState& state, uint16_t rank, int run) const {
  for (size_t lane = 0; lane < state.size(); ++lane) {
    if (plan_.lanes[lane].rank == rank &&
        state[lane] > 2 * static_cast<size_t>(run) * length(lane)) {
      return true;
    }
  }
  return false;
}

bool LaneStates::passes(const LaneState& state, size_t lane, int run, const Instr& wait) const {
  if (run < wait.lag) return true;
  const int copies = plan_.signals[wait.signal.array].copies;
  const int of_run = run - wait.lag;
  const Counter want = counter(lane, wait);
  const auto total = totals_.find(want);
  const int64_t per_run = total == totals_.end() ? 0 : total->second;
  int64_t value = 0;
  for (size_t l = 0; l < state.size(); ++l) {
    for (size_t i = 0; i < at(state, l); ++i) {
      const Instr& instr = plan_.lanes[l].instrs[i % length(l)];
      const int its_run = static_cast<int>(i / length(l));
      if (instr.op == Opcode::notify && counter(l, instr) == want &&
          its_run % copies == of_run % copies) {
        value += instr.amount;
      }
    }
  }
  return value >= of_run / copies * per_run + wait.amount;
}

bool LaneStates::all_have_come(const LaneState& state, size_t lane, int run,
                               const Instr& meeting) const {
  for (size_t l = 0; l < state.size(); ++l) {
    const Lane& other = plan_.lanes[l];
    const uint16_t own = plan_.lanes[lane].rank;
    if (meeting.op == Opcode::boundary && other.rank != own) continue;
    if (meeting.team > 0 && other.rank / meeting.team != own / meeting.team) continue;
    for (size_t pos = 0; pos < other.instrs.size(); ++pos) {
      if (other.instrs[pos].op == meeting.op && other.instrs[pos].id == meeting.id &&
          !begun(state, l, run, pos)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace stretto
