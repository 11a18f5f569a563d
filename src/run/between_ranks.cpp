#include "run/between_ranks.h"

#include <algorithm>
#include <optional>

#include "fabric/lang_group.h"
#include "plan/kernel_calls.h"
#include "run/plan_memory.h"
#include "streams/low_latency_heap.h"
#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::runtime {
namespace {

std::optional<Schedule> schedule_of(const Segment& op, const Machine& machine, const Tuning& tuning,
                                    RowsFrom from) {
  try {
    return served_schedule(op, machine, tuning, from).schedule;
  } catch (const UsageError&) {
    if (from == RowsFrom::host) throw;
    return std::nullopt;  // rows in GPU memory are not served then
  }
}

}  // namespace

BetweenRanks between_ranks(const Plan& plan) {
  BetweenRanks bytes{bytes_between_ranks(plan), 0};
  if (!any_by_language(plan)) return bytes;
  const LowLatencyHeap heap = low_latency_heap(plan, 0, plan.sms);
  bytes.slots = fabric::LangGroup::bytes_of(heap.num_bytes, heap.most_blocks, plan.ranks());
  return bytes;
}

PlannedMemory memory_of(const Plan& plan) {
  return {plan.op.rows(), plan.schedule, between_ranks(plan), bytes_of_own(plan)};
}

std::vector<PlannedMemory> memory_of_buckets(const Segment& most, const Machine& machine,
                                             const Tuning& tuning) {
  std::vector<PlannedMemory> plans;
  for (const int64_t rows : buckets_up_to(most.kind, most.ranks, most.m)) {
    Segment op = most;
    op.m = rows;
    const auto add = [&](const Schedule& schedule) {
      plans.push_back(memory_of(lower(op, schedule, machine)));
    };
    const Schedule of_host = *schedule_of(op, machine, tuning, RowsFrom::host);
    add(of_host);
    if (of_host.gemm == GemmBy::tiles) continue;
    const auto of_memory = schedule_of(op, machine, tuning, RowsFrom::gpu_memory);
    if (of_memory && !(*of_memory == of_host)) add(*of_memory);
  }
  return plans;
}

BetweenRanks of_operation(const std::vector<PlannedMemory>& plans) {
  BetweenRanks all;
  for (const PlannedMemory& one : plans) {
    all.workspace = std::max(all.workspace, one.bytes.workspace);
    all.slots += one.bytes.slots;
  }
  return all;
}

}  // namespace stretto::runtime
