#include "check/state_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <vector>

#include "check/lane_states.h"
#include "stretto/error.h"

namespace stretto {
namespace {

struct Access {
  size_t lane = 0;
  size_t pos = 0;
  bool is_write = false;
};

class Explorer {
 public:
  Explorer(const Plan& plan, int runs, size_t max_states)
      : plan_(plan), states_(plan, runs), runs_(runs), max_states_(max_states) {
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
      for (size_t pos = 0; pos < instrs.size(); ++pos) {
        if (!instrs[pos].is_task()) continue;
        for (const Region& r : plan.reads(instrs[pos])) add(r, {lane, pos, false});
        for (const Region& r : plan.writes(instrs[pos])) add(r, {lane, pos, true});
      }
    }
  }

  OracleVerdict run() {
    const LaneState start = states_.start();
    seen_.insert(start);
    std::vector<LaneState> open{start};
    while (!open.empty()) {
      if (seen_.size() > max_states_) return {};
      const LaneState state = open.back();
      open.pop_back();
      bool moved = false;
      for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
        LaneState next = state;
        if (!states_.step(next, lane)) continue;
        moved = true;
        if (seen_.insert(next).second) {
          look(next);
          open.push_back(std::move(next));
        }
      }
      if (!moved && !states_.finished(state)) fault_ = "stuck";
      if (fault_ == "stuck") break;
    }
    if (fault_.empty()) judge_orders();
    return {true, fault_, seen_.size()};
  }

 private:
  using Place = std::tuple<uint16_t, uint16_t, int32_t, int32_t>;
  struct Accesses {
    std::vector<Access> list;
    // By two accesses in two runs: the second had begun in some state while the first was not done.
    std::vector<bool> overtaken;
  };

  void add(const Region& r, Access access) {
    if (plan_.buffers[r.buffer].role == BufferRole::input || r.empty()) return;
    places_[{r.buffer, r.rank, r.row0, r.col0}].list.push_back(access);
  }

  // Notes which accesses had begun while which were not done, and faults of outputs.
  void look(const LaneState& state) {
    for (auto& [place, accesses] : places_) {
      const auto [buffer, rank, row, col] = place;
      const bool output = plan_.buffers[buffer].role == BufferRole::output;
      const size_t size = accesses.list.size() * static_cast<size_t>(runs_);
      accesses.overtaken.resize(size * size);
      for (size_t x = 0; x < size; ++x) {
        const auto& [a, i] = access(accesses, x);
        if (output && a.is_write) look_at_output(state, rank, plan_.buffers[buffer].copies, i, a);
        if (states_.done(state, a.lane, i, a.pos)) continue;
        for (size_t y = 0; y < size; ++y) {
          const auto& [b, j] = access(accesses, y);
          if (states_.begun(state, b.lane, j, b.pos)) accesses.overtaken[x * size + y] = true;
        }
      }
    }
  }

  void look_at_output(const LaneState& state, uint16_t rank, int copies, int run,
                      const Access& write) {
    if (!states_.done(state, write.lane, run, write.pos) &&
        states_.rank_has_ended(state, rank, run)) {
      note_fault("an output comes after the end of the run", write, run);
    }
    // The caller reads the old output of this instance before its rank's next run.
    if (run >= copies && plan_.lanes[write.lane].rank != rank &&
        states_.begun(state, write.lane, run, write.pos) &&
        !states_.rank_has_begun(state, rank, run - copies + 1)) {
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
  const LaneStates states_;
  const int runs_;
  const size_t max_states_;
  std::map<Place, Accesses> places_;
  std::unordered_set<LaneState> seen_;
  std::string fault_;
};

}  // namespace

OracleVerdict explore(const Plan& plan, int runs, size_t max_states) {
  return Explorer(plan, runs, max_states).run();
}

}  // namespace stretto
