#include "check/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "check/counters.h"
#include "check/execution.h"
#include "check/instr_index.h"
#include "plan/shared_buffers.h"

namespace stretto::checker {
namespace {

using Of = Turns::Of;

// Signals of the plan itself stand before these, each with a counter on every rank.
enum Between : uint16_t { first_ended, second_begins, second_ended, kNumBetween };

class Joined {
 public:
  Joined(const Plan& first, const Plan& second, const Plan& fence) {
    plan_.op = first.op;
    plan_.schedule = "turns";
    plan_.low_latency_collectives = first.low_latency_collectives ||
                                    second.low_latency_collectives || fence.low_latency_collectives;
    for (const char* name : {"first_ended", "second_begins", "second_ended"}) {
      plan_.signals.push_back({name, 1, 1});
    }
    lanes_of_fence_.resize(static_cast<size_t>(fence.ranks()));
    for (const Lane& lane : fence.lanes) ++lanes_of_fence_[lane.rank];
    add(first, Of::first, "first_");
    add(second, Of::second, "second_");
    add(fence, Of::fence, "fence_1_");
    add(fence, Of::fence, "fence_2_");
  }

  Turns take() {
    std::stable_sort(lanes_.begin(), lanes_.end(), [](const Placed& a, const Placed& b) {
      return std::pair(a.lane.rank, a.lane.kind) < std::pair(b.lane.rank, b.lane.kind);
    });
    Turns turns;
    std::map<std::pair<uint16_t, LaneKind>, uint16_t> count;
    for (Placed& one : lanes_) {
      one.lane.index = count[{one.lane.rank, one.lane.kind}]++;
      plan_.sms = std::max<int>(plan_.sms, 2 * one.lane.index + 2);
      turns.lanes.push_back(one.of);
      plan_.lanes.push_back(std::move(one.lane));
    }
    turns.plan = std::move(plan_);
    return turns;
  }

 private:
  struct Placed {
    Lane lane;
    Of of;
  };

  static Instr notify(uint16_t array, uint16_t rank) {
    Instr instr;
    instr.op = Opcode::notify;
    instr.signal = {array, 0};
    instr.rank = rank;
    instr.amount = 1;
    return instr;
  }
  static Instr wait(uint16_t array, int64_t amount, int32_t index = 0) {
    Instr instr;
    instr.op = Opcode::wait;
    instr.signal = {array, index};
    instr.amount = amount;
    return instr;
  }

  void add(const Plan& plan, Of of, const std::string& prefix) {
    const auto buffers = static_cast<uint16_t>(plan_.buffers.size());
    const auto signals = static_cast<uint16_t>(plan_.signals.size());
    const auto operands = static_cast<uint32_t>(plan_.operands.size());
    const auto partitions = static_cast<int16_t>(plan_.partitions.size());
    for (Partition partition : plan.partitions) {
      partition.name = prefix + partition.name;
      plan_.partitions.push_back(std::move(partition));
    }
    for (Buffer buffer : plan.buffers) {
      buffer.name = prefix + buffer.name;
      if (buffer.partition >= 0)
        buffer.partition = static_cast<int16_t>(buffer.partition + partitions);
      plan_.buffers.push_back(std::move(buffer));
    }
    for (SignalArray array : plan.signals) {
      array.name = prefix + array.name;
      plan_.signals.push_back(std::move(array));
    }
    for (Region region : plan.operands) {
      region.buffer = static_cast<uint16_t>(region.buffer + buffers);
      plan_.operands.push_back(region);
    }
    std::vector<int64_t> lanes_of(static_cast<size_t>(plan.ranks())), compute_of = lanes_of;
    int32_t boundaries = 0, ids = 0;
    for (const Lane& lane : plan.lanes) {
      ++lanes_of[lane.rank];
      if (lane.kind == LaneKind::compute) ++compute_of[lane.rank];
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::boundary) boundaries = std::max(boundaries, instr.id + 1);
        if (instr.op == Opcode::collective) ids = std::max(ids, instr.id + 1);
      }
    }
    // A barrier among compute lanes, which the other plan's would have to come to, too.
    const auto barriers = static_cast<uint16_t>(plan_.signals.size());
    if (boundaries > 0) plan_.signals.push_back({prefix + "boundaries", boundaries, 1});
    for (const Lane& lane : plan.lanes) {
      Lane made = lane;
      made.instrs.clear();
      begin(of, lane.rank, made.instrs);
      for (Instr instr : lane.instrs) {
        if (instr.op == Opcode::boundary) {
          Instr come = notify(barriers, lane.rank);
          come.signal.index = instr.id;
          made.instrs.push_back(come);
          made.instrs.push_back(wait(barriers, compute_of[lane.rank], instr.id));
          continue;
        }
        if (instr.op == Opcode::collective) {
          instr.id += next_id_;
          instr.set_kernel(0);  // of its own plan's graph
        }
        if (instr.is_sync())
          instr.signal.array = static_cast<uint16_t>(instr.signal.array + signals);
        if (instr.is_task()) instr.first_operand += operands;
        made.instrs.push_back(instr);
      }
      end(of, lane.rank, made.instrs);
      lanes_.push_back({std::move(made), of});
    }
    next_id_ += ids;
    if (of == Of::first)
      lanes_of_first_ = std::move(lanes_of);
    else if (of == Of::second)
      lanes_of_second_ = std::move(lanes_of);
    else
      is_second_fence_ = true;
  }

  // What a lane waits for before all else; and what its end tells.
  void begin(Of of, uint16_t rank, std::vector<Instr>& instrs) const {
    if (of == Of::second) instrs.push_back(wait(second_begins, lanes_of_fence_[rank]));
    if (of == Of::fence) {
      instrs.push_back(is_second_fence_ ? wait(second_ended, lanes_of_second_[rank])
                                        : wait(first_ended, lanes_of_first_[rank]));
    }
  }
  void end(Of of, uint16_t rank, std::vector<Instr>& instrs) const {
    if (of == Of::first) instrs.push_back(notify(first_ended, rank));
    if (of == Of::second) instrs.push_back(notify(second_ended, rank));
    if (of == Of::fence && !is_second_fence_) instrs.push_back(notify(second_begins, rank));
  }

  Plan plan_;
  std::vector<Placed> lanes_;
  std::vector<int64_t> lanes_of_first_, lanes_of_second_, lanes_of_fence_;  // by rank
  int32_t next_id_ = 0;                                                     // of a collective
  bool is_second_fence_ = false;
};

// What a lane does first and last to a rank's memory: all else lies between the two.
struct Touches {
  uint32_t lane, first, last;
};

// Of the lanes of one plan, by rank whose memory it is.
std::vector<std::vector<Touches>> touches_of(const Turns& turns, Of of,
                                             const std::vector<bool>& reached) {
  const Plan& plan = turns.plan;
  std::vector<std::vector<Touches>> by_rank(static_cast<size_t>(plan.ranks()));
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    if (turns.lanes[l] != of) continue;
    for (uint32_t i = 0; i < plan.lanes[l].instrs.size(); ++i) {
      const Instr& instr = plan.lanes[l].instrs[i];
      for (const auto& regions : {plan.reads(instr), plan.writes(instr)}) {
        for (const Region& region : regions) {
          if (!reached[region.buffer]) continue;
          auto& touches = by_rank[region.rank];
          if (touches.empty() || touches.back().lane != l) touches.push_back({l, i, i});
          touches.back().last = i;
        }
      }
    }
  }
  return by_rank;
}

}  // namespace

Turns in_turns(const Plan& first, const Plan& second, const Plan& fence) {
  return Joined(first, second, fence).take();
}

CheckReport check_turns(const Turns& turns, const CheckOptions& options) {
  const Plan& plan = turns.plan;
  CheckReport report = check(plan, {options.max_diagnostics, true});
  for (const Diagnostic& one : report.diagnostics) {
    if (one.kind == DiagnosticKind::deadlock) return report;  // nothing is known behind it
  }
  const InstrIndex index(plan);
  const Counters counters(plan, index);
  Execution execution(plan, index, counters, report.epochs);
  execution.run();
  const std::vector<bool> reached = shared_buffers(plan);
  const auto of_first = touches_of(turns, Of::first, reached);
  const auto of_second = touches_of(turns, Of::second, reached);
  // `is_next`: `after` is of the next run, which a rank begins once all its lanes have ended.
  const auto prove = [&](const Touches& before, const Touches& after, bool is_next, int rank) {
    const Instr& instr = plan.lanes[after.lane].instrs[after.first];
    const uint16_t own = plan.lanes[after.lane].rank;
    const Event begins =
        is_next ? execution.caller(own)
                : execution.begin(after.lane, index.of(after.lane, after.first), instr.op, 0);
    const bool is_same_rank = is_next && plan.lanes[before.lane].rank == own;
    if (is_same_rank ||
        execution.clocks().precedes(
            execution.event(before.lane, index.of(before.lane, before.last), 0), begins)) {
      ++report.pairs_proved;
      return;
    }
    if (report.diagnostics.size() >= options.max_diagnostics) {
      report.truncated = true;
      return;
    }
    Diagnostic found{DiagnosticKind::unordered_writes,
                     InstrRef{after.lane, after.first},
                     InstrRef{before.lane, before.last},
                     -1,
                     {},
                     {},
                     {}};
    found.message = fmt::format(
        "{} may begin on rank {}'s memory, which the plans share, before {} of the other plan has "
        "ended there",
        describe(plan.lanes[after.lane]), rank, describe(plan.lanes[before.lane]));
    found.hint = "the fence between them should order the two";
    report.diagnostics.push_back(std::move(found));
  };
  for (size_t rank = 0; rank < of_first.size(); ++rank) {
    for (const Touches& first : of_first[rank]) {
      for (const Touches& second : of_second[rank]) {
        prove(first, second, false, static_cast<int>(rank));
        prove(second, first, true, static_cast<int>(rank));
      }
    }
  }
  return report;
}

}  // namespace stretto::checker
