#include "check/stuck.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/wording.h"

namespace stretto::checker {
namespace {

constexpr uint32_t kNobody = ~uint32_t{0};

class StuckCheck {
 public:
  StuckCheck(const Plan& plan, const InstrIndex& index, const Counters& counters,
             const Execution& execution, Findings& findings)
      : plan_(plan),
        index_(index),
        counters_(counters),
        execution_(execution),
        findings_(findings),
        rank_lanes_(static_cast<size_t>(plan.ranks())),
        visited_by_(plan.lanes.size(), kNobody) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      rank_lanes_[plan.lanes[lane].rank].push_back(lane);
      for (const Instr& instr : plan.lanes[lane].instrs) {
        if (instr.op == Opcode::collective) {
          collective_lanes_.push_back(lane);
          break;
        }
      }
    }
  }

  // Every stuck lane waits for some other; walks along until a lane comes again.
  void run() {
    for (uint32_t start = 0; start < plan_.lanes.size() && !findings_.full(); ++start) {
      uint32_t lane = start;
      while (lane != kNobody && visited_by_[lane] == kNobody) {
        visited_by_[lane] = start;
        lane = stuck(lane) ? blocker(lane) : kNobody;
      }
      if (lane != kNobody && visited_by_[lane] == start) report(lane);
    }
  }

 private:
  bool stuck(uint32_t lane) const { return execution_.place(lane).run < execution_.runs(); }
  bool ended(uint32_t lane) const {
    return execution_.place(lane).pos >= plan_.lanes[lane].instrs.size();
  }
  const Instr& next(uint32_t lane) const {
    return plan_.lanes[lane].instrs[execution_.place(lane).pos];
  }
  bool stands_at(uint32_t lane, Opcode op) const { return !ended(lane) && next(lane).op == op; }

  // A lane that must move before the stuck `lane` can.
  uint32_t blocker(uint32_t lane) const {
    const std::vector<uint32_t>& mates = rank_lanes_[plan_.lanes[lane].rank];
    auto first = [](const std::vector<uint32_t>& lanes, const auto& holds_up) {
      const auto found = std::find_if(lanes.begin(), lanes.end(), holds_up);
      return found == lanes.end() ? kNobody : *found;
    };
    if (ended(lane)) return first(mates, [&](uint32_t mate) { return !ended(mate); });
    const Instr& instr = next(lane);
    if (instr.op == Opcode::boundary) {
      return first(mates, [&](uint32_t mate) {
        return plan_.lanes[mate].kind == LaneKind::compute && !stands_at(mate, Opcode::boundary);
      });
    }
    if (instr.op == Opcode::collective) {
      const Plan::Joined joined = plan_.joined_by(instr, plan_.lanes[lane].rank);
      return first(collective_lanes_, [&](uint32_t peer) {
        if (!joined.has(plan_.lanes[peer].rank)) return false;
        if (stands_at(peer, Opcode::collective) && next(peer).id == instr.id) return false;
        return runs_collective(peer, instr.id);
      });
    }
    return missing_notifier(lane, instr);
  }

  bool runs_collective(uint32_t lane, int32_t id) const {
    const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
    return std::any_of(instrs.begin(), instrs.end(), [&](const Instr& instr) {
      return instr.op == Opcode::collective && instr.id == id;
    });
  }

  uint32_t missing_notifier(uint32_t lane, const Instr& wait) const {
    const Execution::Place place = execution_.place(lane);
    const int of_run = place.run - wait.lag;
    const Counter& counter = counters_[counters_.of(index_.of(lane, place.pos))];
    for (const Share& share : counters_.shares(counter)) {
      const Execution::Place theirs = execution_.place(share.lane);
      if (theirs.run < of_run ||
          (theirs.run == of_run && theirs.pos <= counters_.notes(share).back().pos)) {
        return share.lane;
      }
    }
    return kNobody;
  }

  // "rank 1 compute 0, which stands at instruction 1 (wait b.0 >= 1) of run 0"
  std::string standing(uint32_t lane) const {
    const Execution::Place place = execution_.place(lane);
    if (ended(lane)) {
      return fmt::format("{}, which cannot start run {} before its rank has ended run {}",
                         lane_name(plan_, lane), place.run + 1, place.run);
    }
    std::string counter;
    const Instr& instr = next(lane);
    if (instr.op == Opcode::wait) {
      const uint32_t c = counters_.of(index_.of(lane, place.pos));
      counter = fmt::format(", at {} of {}",
                            execution_.value(c, place.run - instr.lag) -
                                (place.run - instr.lag) / counters_[c].copies * counters_[c].total,
                            counters_[c].total);
    }
    return fmt::format("{}, which stands at instruction {} ({}{}) of run {}",
                       lane_name(plan_, lane), place.pos, what(plan_, {lane, place.pos}), counter,
                       place.run);
  }

  void report(uint32_t start) {
    std::vector<uint32_t> cycle{start};
    for (uint32_t lane = blocker(start); lane != start; lane = blocker(lane)) cycle.push_back(lane);
    // Begin where there is an instruction to show; a cycle of ended lanes alone cannot be.
    const auto shown = std::find_if(cycle.begin(), cycle.end(),
                                    [&](uint32_t lane) { return stands_at(lane, Opcode::wait); });
    if (shown != cycle.end()) std::rotate(cycle.begin(), shown, cycle.end());
    findings_.add(DiagnosticKind::deadlock, cycle.front(), [&] {
      Diagnostic d;
      d.where = {cycle.front(), execution_.place(cycle.front()).pos};
      if (cycle.size() > 1) d.other = InstrRef{cycle[1], execution_.place(cycle[1]).pos};
      if (stands_at(cycle.front(), Opcode::wait)) {
        d.signal = name(plan_, counters_[counters_.of(index_.of(*d.where))]);
      }
      d.message =
          fmt::format("deadlock of {}: ", counted(static_cast<int64_t>(cycle.size()), "lane"));
      for (size_t i = 0; i < cycle.size() && i < kMostNamed; ++i) {
        d.message += standing(cycle[i]) + " and needs ";
        if (i > 1) d.also.push_back({cycle[i], execution_.place(cycle[i]).pos});
      }
      if (cycle.size() > kMostNamed) {
        d.message += fmt::format("{} and so on, back to ", lane_name(plan_, cycle[kMostNamed]));
      }
      d.message += lane_name(plan_, cycle.front());
      d.hint = cycle.size() > 1 ? "let one of these lanes notify before it waits"
                                : "the lane waits for what it notifies itself further down";
      return d;
    });
  }

  const Plan& plan_;
  const InstrIndex& index_;
  const Counters& counters_;
  const Execution& execution_;
  Findings& findings_;
  std::vector<std::vector<uint32_t>> rank_lanes_;
  std::vector<uint32_t> collective_lanes_;
  std::vector<uint32_t> visited_by_;  // by lane: where the walk that came by had started
};

}  // namespace

void check_stuck(const Plan& plan, const InstrIndex& index, const Counters& counters,
                 const Execution& execution, Findings& findings) {
  StuckCheck(plan, index, counters, execution, findings).run();
}

}  // namespace stretto::checker
