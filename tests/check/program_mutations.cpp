#include "check/program_mutations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace stretto {
namespace {

using cuda::BlockPart;
using cuda::RankProgram;
using cuda::Step;
using cuda::StepKind;
using Programs = std::vector<RankProgram>;

constexpr const char* kNames[] = {"gemm",       "move",   "wait",  "notify", "copy",
                                  "collective", "record", "await", "route"};
const char* name_of(StepKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool is_kernel(const Step& step) {
  return step.kind == StepKind::gemm || step.kind == StepKind::move;
}
bool is_event(const Step& step) {
  return step.kind == StepKind::record || step.kind == StepKind::await;
}
// Tasks.
bool works(const Step& step) {
  return is_kernel(step) || step.kind == StepKind::copy || step.kind == StepKind::collective ||
         step.kind == StepKind::route;
}

std::vector<BlockPart>& blocks_of(RankProgram& program, const Step& step) {
  return (step.kind == StepKind::gemm ? program.gemms : program.moves)[step.index];
}
const std::vector<BlockPart>& blocks_of(const RankProgram& program, const Step& step) {
  return (step.kind == StepKind::gemm ? program.gemms : program.moves)[step.index];
}

void erase_step(RankProgram& program, uint32_t s, uint32_t i) {
  std::vector<Step>& steps = program.streams[s].steps;
  steps.erase(steps.begin() + i);
  std::erase(program.order, std::pair(s, i));
  for (auto& [stream, step] : program.order) step -= stream == s && step > i;
}

// Behind that one, in its stream and in what is enqueued.
void insert_behind(RankProgram& program, uint32_t s, uint32_t i, const Step& added) {
  std::vector<Step>& steps = program.streams[s].steps;
  steps.insert(steps.begin() + i + 1, added);
  for (auto& [stream, step] : program.order) step += stream == s && step > i;
  const auto at = std::find(program.order.begin(), program.order.end(), std::pair(s, i));
  program.order.insert(at + 1, {s, i + 1});
}

// By a walk along streams and events: whether `to` comes behind `from` has ended.
bool comes_behind(const RankProgram& program, std::pair<uint32_t, uint32_t> from,
                  std::pair<uint32_t, uint32_t> to) {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  std::vector<std::pair<uint32_t, uint32_t>> open{from};
  while (!open.empty()) {
    const auto [s, i] = open.back();
    open.pop_back();
    if (!seen.emplace(s, i).second) continue;
    const std::vector<Step>& steps = program.streams[s].steps;
    if (i + 1 < steps.size()) open.emplace_back(s, i + 1);
    if (steps[i].kind != StepKind::record) continue;
    for (uint32_t other = 0; other < program.streams.size(); ++other) {
      const std::vector<Step>& theirs = program.streams[other].steps;
      for (uint32_t at = 0; at < theirs.size(); ++at) {
        if (theirs[at].kind == StepKind::await && theirs[at].index == steps[i].index) {
          open.emplace_back(other, at);
        }
      }
    }
  }
  return from != to && seen.count(to) > 0;
}

class Mutator {
 public:
  Mutator(const Plan& plan, const Programs& programs) : plan_(plan), programs_(programs) {}

  std::vector<ProgramMutation> take() {
    for (rank_ = 0; rank_ < programs_.size(); ++rank_) {
      const RankProgram& program = programs_[rank_];
      for (uint32_t s = 0; s < program.streams.size(); ++s) {
        for (uint32_t i = 0; i < program.streams[s].steps.size(); ++i) change_step(s, i);
      }
      for (uint32_t k = 0; k < program.gemms.size(); ++k) {
        change_blocks({StepKind::gemm, k, 0, 0});
        if (program.movers[k]) leave_movers_out(k);
      }
      for (uint32_t k = 0; k < program.moves.size(); ++k) {
        if (!program.are_rows(k)) change_blocks({StepKind::move, k, 0, 0});
      }
      change_order();
    }
    return std::move(found_);
  }

 private:
  const RankProgram& program() const { return programs_[rank_]; }

  template <typename Change>
  void add(const std::string& where, const std::string& kind, const Change& change,
           bool harms = true) {
    found_.push_back({fmt::format("rank {} {}: {}", rank_, where, kind), kind, harms,
                      [change, rank = rank_](Programs& all) { change(all[rank]); }});
  }

  // Whether the plan has the two in this order; `first` stands right before `second`.
  bool are_ordered(const Step& first, const Step& second) const {
    if (!works(first) || !works(second)) return false;
    if (!is_kernel(first) || !is_kernel(second)) return true;
    return lanes_meet(first, second);
  }
  bool lanes_meet(const Step& first, const Step& second) const {
    for (const BlockPart& a : blocks_of(program(), first)) {
      for (const BlockPart& b : blocks_of(program(), second)) {
        if (a.lane == b.lane || boundaries_before(a) != boundaries_before(b)) return true;
      }
    }
    return false;
  }
  int64_t boundaries_before(const BlockPart& part) const {
    const auto begin = plan_.lanes[part.lane].instrs.begin();
    return std::count_if(begin, begin + part.begin,
                         [](const Instr& instr) { return instr.op == Opcode::boundary; });
  }

  void change_step(uint32_t s, uint32_t i) {
    const std::vector<Step>& steps = program().streams[s].steps;
    const Step& step = steps[i];
    const std::string where = fmt::format("stream {} step {}", s, i);
    const std::string name = name_of(step.kind);
    if (step.kind != StepKind::await || loses_by(s, i)) {
      add(where, "drop " + name, [=](RankProgram& p) { erase_step(p, s, i); });
    }
    if (works(step)) {
      add(where, "double " + name,
          [=](RankProgram& p) { insert_behind(p, s, i, p.streams[s].steps[i]); });
    }
    const bool last = i + 1 == steps.size();
    if (!last && harms_to_swap(s, i)) {
      add(where, fmt::format("swap {} and {}", name, name_of(steps[i + 1].kind)),
          [=](RankProgram& p) { std::swap(p.streams[s].steps[i], p.streams[s].steps[i + 1]); });
    }
    const bool has_neighbour =
        (!last && are_ordered(step, steps[i + 1])) || (i > 0 && are_ordered(steps[i - 1], step));
    if (!has_neighbour) return;
    add(where, name + " on a stream of its own", [=](RankProgram& p) {
      const Step moved = p.streams[s].steps[i];
      erase_step(p, s, i);
      p.order.push_back({static_cast<uint32_t>(p.streams.size()), 0});
      p.streams.push_back({p.streams[s].kind, p.streams[s].index, {moved}});
    });
  }

  // The task before the record of the event that a step awaits, and the task behind that.
  bool loses_by(uint32_t s, uint32_t i) const {
    const std::vector<Step>& steps = program().streams[s].steps;
    const auto next = std::find_if(steps.begin() + i, steps.end(), works);
    if (next == steps.end()) return false;
    const auto at = static_cast<uint32_t>(next - steps.begin());
    for (uint32_t other = 0; other < program().streams.size(); ++other) {
      const std::vector<Step>& theirs = program().streams[other].steps;
      for (uint32_t r = 0; r < theirs.size(); ++r) {
        if (theirs[r].kind != StepKind::record || theirs[r].index != steps[i].index) continue;
        uint32_t source = r;
        while (source > 0 && !works(theirs[source])) --source;
        if (!works(theirs[source])) return false;
        RankProgram without = program();
        erase_step(without, s, i);
        return !comes_behind(without, {other, source}, {s, at - 1});
      }
    }
    return false;
  }

  bool harms_to_swap(uint32_t s, uint32_t i) const {
    const std::vector<Step>& steps = program().streams[s].steps;
    const Step &first = steps[i], &second = steps[i + 1];
    if (first.kind == StepKind::wait) return works(second) || second.kind == StepKind::notify;
    if (first.kind == StepKind::await) return works(second) && loses_by(s, i);
    if (second.kind == StepKind::notify) {
      return works(first) && (!is_kernel(first) || has_lane(first, second.lane));
    }
    return are_ordered(first, second);
  }
  bool has_lane(const Step& kernel, uint32_t lane) const {
    const std::vector<BlockPart>& blocks = blocks_of(program(), kernel);
    return std::any_of(blocks.begin(), blocks.end(),
                       [&](const BlockPart& part) { return part.lane == lane; });
  }

  void change_blocks(const Step& kernel) {
    const std::vector<BlockPart>& blocks = blocks_of(program(), kernel);
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      const BlockPart& part = blocks[b];
      const std::string where =
          fmt::format("{} kernel {} block {}", name_of(kernel.kind), kernel.index, b);
      for (uint32_t w = 0; w < part.at_end.size(); ++w) change_end_wait(kernel, b, w, where);
      if (part.begin == part.end) continue;
      add(where, "drop block", [=](RankProgram& p) {
        auto& all = blocks_of(p, kernel);
        all.erase(all.begin() + b);
      });
      add(where, "double block", [=](RankProgram& p) {
        auto& all = blocks_of(p, kernel);
        all.push_back({all[b].lane, all[b].begin, all[b].end, {}});
      });
      const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
      if (instrs[part.end - 1].op != Opcode::deliver) {
        add(where, fmt::format("cut {} off the end", to_string(instrs[part.end - 1].op)),
            [=](RankProgram& p) { --blocks_of(p, kernel)[b].end; });
      }
      const bool is_needed = instrs[part.begin].op != Opcode::wait ||
                             !is_behind_its_notifies(instrs[part.begin], kernel);
      add(
          where,
          fmt::format("cut {}{} off the front", is_needed ? "" : "needless ",
                      to_string(instrs[part.begin].op)),
          [=](RankProgram& p) { ++blocks_of(p, kernel)[b].begin; }, is_needed);
      const uint32_t middle = (part.begin + part.end) / 2;
      if (middle == part.begin) continue;
      add(where, "cut in two", [=](RankProgram& p) {
        auto& all = blocks_of(p, kernel);
        all.push_back({all[b].lane, middle, all[b].end, all[b].at_end});
        all[b].end = middle;
        all[b].at_end.clear();
      });
    }
  }

  // Whether the kernel begins behind all steps that make the notifies which a wait of it awaits:
  // then it need not.
  bool is_behind_its_notifies(const Instr& wait, const Step& kernel) {
    if (wait.lag > 0) return false;
    const StepOf at = step_of(kernel);
    for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
      const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
      for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
        const Instr& notify = instrs[pos];
        if (notify.op != Opcode::notify || notify.rank != rank_ || notify.signal != wait.signal) {
          continue;
        }
        if (plan_.lanes[l].rank != rank_) return false;
        const StepOf made = step_of({l, pos});
        if (made.first == kNoStream || !comes_behind(program(), made, at)) return false;
      }
    }
    return true;
  }
  using StepOf = std::pair<uint32_t, uint32_t>;  // stream and step
  static constexpr uint32_t kNoStream = UINT32_MAX;
  template <typename Is>
  StepOf find_step(const Is& is) const {
    for (uint32_t s = 0; s < program().streams.size(); ++s) {
      const std::vector<Step>& steps = program().streams[s].steps;
      for (uint32_t i = 0; i < steps.size(); ++i) {
        if (is(steps[i])) return {s, i};
      }
    }
    return {kNoStream, 0};
  }
  StepOf step_of(const Step& kernel) const {
    return find_step([&](const Step& step) {
      const bool joins = step.kind == StepKind::gemm && kernel.kind == StepKind::move &&
                         program().movers[step.index] == kernel.index;
      return joins || (step.kind == kernel.kind && step.index == kernel.index);
    });
  }
  StepOf step_of(InstrRef ref) const {
    return find_step([&](const Step& step) {
      if (!is_kernel(step))
        return step.lane == ref.lane && step.position == ref.pos && !is_event(step);
      const std::vector<BlockPart>& blocks = blocks_of(program(), step);
      return std::any_of(blocks.begin(), blocks.end(), [&](const BlockPart& part) {
        return part.lane == ref.lane && part.begin <= ref.pos && ref.pos < part.end;
      });
    });
  }

  void change_end_wait(const Step& kernel, uint32_t b, uint32_t w, const std::string& where) {
    add(where, "drop end wait", [=](RankProgram& p) {
      auto& waits = blocks_of(p, kernel)[b].at_end;
      waits.erase(waits.begin() + w);
    });
    add(
        where, "end wait by another block",
        [=](RankProgram& p) {
          auto& all = blocks_of(p, kernel);
          all[(b + 1) % all.size()].at_end.push_back(all[b].at_end[w]);
          all[b].at_end.erase(all[b].at_end.begin() + w);
        },
        false);
    add(
        where, "end wait behind the kernel",
        [=](RankProgram& p) {
          auto& waits = blocks_of(p, kernel)[b].at_end;
          const Step wait = waits[w];
          waits.erase(waits.begin() + w);
          for (uint32_t i = 0; i < p.streams[0].steps.size(); ++i) {
            const Step& step = p.streams[0].steps[i];
            if (step.kind != kernel.kind || step.index != kernel.index) continue;
            return insert_behind(p, 0, i, wait);
          }
        },
        false);
  }

  void leave_movers_out(uint32_t k) {
    add(fmt::format("gemm kernel {}", k), "drop movers",
        [=](RankProgram& p) { p.movers[k].reset(); });
  }

  void change_order() {
    const auto& order = program().order;
    for (uint32_t at = 0; at < order.size(); ++at) {
      const auto [s, i] = order[at];
      const std::string where = fmt::format("place {} of the order", at);
      add(where, "never enqueue", [=](RankProgram& p) { p.order.erase(p.order.begin() + at); });
      if (at + 1 < order.size() && order[at + 1].first == s) {
        add(where, "enqueue behind the next",
            [=](RankProgram& p) { std::swap(p.order[at], p.order[at + 1]); });
      }
      const Step& step = program().streams[s].steps[i];
      if (step.kind != StepKind::record) continue;
      add(where, "enqueue the rest of the stream last", [=, stream = s](RankProgram& p) {
        std::stable_partition(p.order.begin() + at, p.order.end(),
                              [&](const auto& one) { return one.first != stream; });
      });
    }
  }

  const Plan& plan_;
  const Programs& programs_;
  size_t rank_ = 0;
  std::vector<ProgramMutation> found_;
};

}  // namespace

std::vector<ProgramMutation> mutations_of(const Plan& plan, const Programs& programs) {
  return Mutator(plan, programs).take();
}

}  // namespace stretto
