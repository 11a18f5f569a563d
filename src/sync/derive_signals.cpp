// derive_signals: the order of tasks that somebody wrote, then place_signals as for lowered ones.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stretto/derive.h"
#include "stretto/lower.h"
#include "sync/task_order.h"

namespace stretto {
namespace {

void refuse_signals(const Plan& plan) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    const auto sync = std::find_if(instrs.begin(), instrs.end(),
                                   [](const Instr& instr) { return instr.is_sync(); });
    if (sync == instrs.end()) continue;
    throw UnorderedPlan(
        fmt::format("{} has '{}', and waits and notifies are to be derived; remove "
                    "all of them, and the 'signals' lines",
                    describe(plan.lanes[lane]), print(plan, plan.lanes[lane], *sync)),
        InstrRef{lane, static_cast<uint32_t>(sync - instrs.begin())});
  }
  if (plan.signals.empty()) return;
  throw UnorderedPlan(
      fmt::format("signals {} are declared, and signals are to be derived; remove "
                  "the 'signals' lines",
                  plan.signals.front().name));
}

// A signal says that what a rank has is there for its own lanes, so nobody could wait for others'.
void refuse_reads_of_others(const Plan& plan) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
      if (!instrs[pos].is_task()) continue;
      for (const Region& region : plan.reads(instrs[pos])) {
        if (region.rank == plan.lanes[lane].rank) continue;
        throw UnorderedPlan(
            fmt::format("{} instruction {} reads {} of another rank: let rank {} push it",
                        describe(plan.lanes[lane]), pos, describe(plan, region), region.rank),
            InstrRef{lane, pos});
      }
    }
  }
}

// That of the schedule's text, if it is one and all its products agree.
Sync sync_of(const Plan& plan, const Machine& machine) {
  const Sync usual = plan.any_library() ? Sync::event : Sync::counter;
  if (plan.schedule.empty()) return usual;
  try {
    const OperatorSchedule read = parse_schedules(plan.schedule, plan.op, machine);
    const Sync first = read.products.empty() ? usual : read.first().sync;
    const bool agree = std::all_of(read.products.begin(), read.products.end(),
                                   [&](const Schedule& one) { return one.sync == first; });
    return agree ? first : usual;
  } catch (const UsageError&) {  // a name of somebody's own
    return usual;
  }
}

// Kernels wait in a rank's first compute lane.
void require_first_lanes(const Plan& plan) {
  for (uint32_t at = 0; at < plan.lanes.size(); ++at) {
    const Lane& lane = plan.lanes[at];
    const bool is_first = at == 0 || plan.lanes[at - 1].rank != lane.rank;
    if (lane.kind == LaneKind::compute && is_first && lane.index != 0) {
      throw UnorderedPlan(describe(lane) +
                              " is its rank's first one: number compute lanes from 0, "
                              "as kernels wait in the first",
                          InstrRef{at, 0});
    }
  }
}

}  // namespace

Plan derive_signals(Plan plan) {
  refuse_signals(plan);
  validate(plan);
  refuse_reads_of_others(plan);
  const Machine machine = default_machine(plan.ranks());
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) instr.fused = false;  // which can be hangs on who waits
  }
  Schedule schedule;
  schedule.sync = sync_of(plan, machine);
  const bool by_events = schedule.sync == Sync::event;
  if (by_events) require_first_lanes(plan);
  std::vector<InstrRef> program = order_tasks(plan, by_events);
  const Operator op = plan.op;
  Draft draft{op, schedule, machine, std::move(plan), std::move(program), {}};
  place_signals(draft);
  fuse_tasks(draft.plan);
  return std::move(draft.plan);
}

}  // namespace stretto
