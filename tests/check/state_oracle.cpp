#include "check/state_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <vector>

#include "stretto/error.h"

namespace stretto {
namespace {

// How far every lane has come, in half steps through all runs: an instruction has begun after the
// first half and is done after the second. Only collectives and boundaries rest in between.
using State = std::u16string;

struct Access {
  size_t lane = 0;
  size_t pos = 0;
  bool is_write = false;
};

class Explorer {
 public:
  Explorer(const Plan& plan, int runs, size_t max_states)
      : plan_(plan), runs_(runs), max_states_(max_states) {
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
      for (size_t pos = 0; pos < instrs.size(); ++pos) {
        if (instrs[pos].op == Opcode::notify)
          totals_[counter(lane, instrs[pos])] += instrs[pos].amount;
        if (!instrs[pos].is_task()) continue;
        for (const Region& r : plan.reads(instrs[pos])) add(r, {lane, pos, false});
        for (const Region& r : plan.writes(instrs[pos])) add(r, {lane, pos, true});
      }
    }
  }

  OracleVerdict run() {
    State start(plan_.lanes.size(), 0);
    seen_.insert(start);
    std::vector<State> open{start};
    while (!open.empty()) {
      if (seen_.size() > max_states_) return {};
      const State state = open.back();
      open.pop_back();
      bool moved = false;
      for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
        State next = state;
        if (!step(next, lane)) continue;
        moved = true;
        if (seen_.insert(next).second) {
          look(next);
          open.push_back(std::move(next));
        }
      }
      if (!moved && !finished(state)) fault_ = "stuck";
      if (fault_ == "stuck") break;
    }
    if (fault_.empty()) judge_orders();
    return {true, fault_, seen_.size()};
  }

 private:
  using Counter = std::tuple<uint16_t, int32_t, uint16_t>;
  using Place = std::tuple<uint16_t, uint16_t, int32_t, int32_t>;
  struct Accesses {
    std::vector<Access> list;
    // By two accesses in two runs: the second had begun in some state while the first was not done.
    std::vector<bool> overtaken;
  };

  Counter counter(size_t lane, const Instr& instr) const {
    return {instr.signal.array, instr.signal.index,
            instr.op == Opcode::notify ? instr.rank : plan_.lanes[lane].rank};
  }
  void add(const Region& r, Access access) {
    if (plan_.buffers[r.buffer].role == BufferRole::input || r.empty()) return;
    places_[{r.buffer, r.rank, r.row0, r.col0}].list.push_back(access);
  }

  size_t length(size_t lane) const { return plan_.lanes[lane].instrs.size(); }
  size_t at(const State& state, size_t lane) const { return state[lane] / 2u; }
  int run_of(const State& state, size_t lane) const {
    return length(lane) == 0 ? runs_ : static_cast<int>(at(state, lane) / length(lane));
  }
  bool done(const State& state, size_t lane, int run, size_t pos) const {
    return at(state, lane) > static_cast<size_t>(run) * length(lane) + pos;
  }
  bool begun(const State& state, size_t lane, int run, size_t pos) const {
    return state[lane] > 2 * (static_cast<size_t>(run) * length(lane) + pos);
  }
  bool finished(const State& state) const {
    for (size_t lane = 0; lane < state.size(); ++lane) {
      if (run_of(state, lane) < runs_) return false;
    }
    return true;
  }
  bool rank_has_ended(const State& state, uint16_t rank, int run) const {
    for (size_t lane = 0; lane < state.size(); ++lane) {
      if (plan_.lanes[lane].rank == rank && run_of(state, lane) <= run) return false;
    }
    return true;
  }
  bool rank_has_begun(const State& state, uint16_t rank, int run) const {
    for (size_t lane = 0; lane < state.size(); ++lane) {
      if (plan_.lanes[lane].rank == rank &&
          state[lane] > 2 * static_cast<size_t>(run) * length(lane)) {
        return true;
      }
    }
    return false;
  }

  // Moves the lane by one instruction, or by half of one that meets others.
  bool step(State& state, size_t lane) const {
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

  bool passes(const State& state, size_t lane, int run, const Instr& wait) const {
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

  bool all_have_come(const State& state, size_t lane, int run, const Instr& meeting) const {
    for (size_t l = 0; l < state.size(); ++l) {
      const Lane& other = plan_.lanes[l];
      if (meeting.op == Opcode::boundary && other.rank != plan_.lanes[lane].rank) continue;
      for (size_t pos = 0; pos < other.instrs.size(); ++pos) {
        if (other.instrs[pos].op == meeting.op && other.instrs[pos].id == meeting.id &&
            !begun(state, l, run, pos)) {
          return false;
        }
      }
    }
    return true;
  }

  // Notes which accesses had begun while which were not done, and faults of outputs.
  void look(const State& state) {
    for (auto& [place, accesses] : places_) {
      const auto [buffer, rank, row, col] = place;
      const bool output = plan_.buffers[buffer].role == BufferRole::output;
      const size_t size = accesses.list.size() * static_cast<size_t>(runs_);
      accesses.overtaken.resize(size * size);
      for (size_t x = 0; x < size; ++x) {
        const auto& [a, i] = access(accesses, x);
        if (output && a.is_write) look_at_output(state, rank, plan_.buffers[buffer].copies, i, a);
        if (done(state, a.lane, i, a.pos)) continue;
        for (size_t y = 0; y < size; ++y) {
          const auto& [b, j] = access(accesses, y);
          if (begun(state, b.lane, j, b.pos)) accesses.overtaken[x * size + y] = true;
        }
      }
    }
  }

  void look_at_output(const State& state, uint16_t rank, int copies, int run, const Access& write) {
    if (!done(state, write.lane, run, write.pos) && rank_has_ended(state, rank, run)) {
      note_fault("an output comes after the end of the run", write, run);
    }
    // The caller reads the old output of this instance before its rank's next run.
    if (run >= copies && plan_.lanes[write.lane].rank != rank &&
        begun(state, write.lane, run, write.pos) &&
        !rank_has_begun(state, rank, run - copies + 1)) {
      note_fault("an output is overwritten under the caller's eyes", write, run);
    }
  }

  std::pair<const Access&, int> access(const Accesses& accesses, size_t number) const {
    const auto runs = static_cast<size_t>(runs_);
    return {accesses.list[number / runs], static_cast<int>(number % runs)};
  }

  void judge_orders() {
    for (const auto& [place, accesses] : places_) {
      const int copies = plan_.buffers[std::get<0>(place)].copies;
      const size_t size = accesses.list.size() * static_cast<size_t>(runs_);
      if (accesses.overtaken.empty()) continue;
      for (size_t x = 0; x < size; ++x) {
        const auto& [a, i] = access(accesses, x);
        bool has_source = a.is_write;
        for (size_t y = 0; y < size; ++y) {
          const auto& [b, j] = access(accesses, y);
          const bool same_task = a.lane == b.lane && a.pos == b.pos;
          const bool before = !accesses.overtaken[x * size + y];
          const bool after = !accesses.overtaken[y * size + x];
          if (i == j && b.is_write && !same_task && after) has_source = true;
          if (!a.is_write && !b.is_write) continue;
          if (i == j && !same_task && !before && !after) note_fault("a race within a run", a, i);
          if (j == i + copies && b.is_write && !before) note_fault("a race between runs", a, i);
        }
        if (!has_source) note_fault("a read without a write before it", a, i);
      }
    }
  }

  void note_fault(const char* what, const Access& access, int run) {
    if (!fault_.empty()) return;
    fault_ = fmt::format("{}: {} instruction {} of run {}", what,
                         describe(plan_.lanes[access.lane]), access.pos, run);
  }

  const Plan& plan_;
  const int runs_;
  const size_t max_states_;
  std::map<Counter, int64_t> totals_;
  std::map<Place, Accesses> places_;
  std::unordered_set<State> seen_;
  std::string fault_;
};

}  // namespace

OracleVerdict explore(const Plan& plan, int runs, size_t max_states) {
  return Explorer(plan, runs, max_states).run();
}

}  // namespace stretto
