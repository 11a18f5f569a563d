#include "sync/implied_reads.h"

#include <algorithm>

namespace stretto {
namespace {

size_t place_of(const Plan& plan, const Region& region) {
  return region.buffer * static_cast<size_t>(plan.ranks()) + region.rank;
}

// By operand that is a read: how many writes of its buffer come before it in the program.
std::vector<uint32_t> writes_before(const Plan& plan, const std::vector<TaskOperands>& tasks) {
  std::vector<uint32_t> writes(plan.buffers.size() * static_cast<size_t>(plan.ranks()), 0);
  std::vector<uint32_t> before(plan.operands.size(), 0);
  for (const TaskOperands& task : tasks) {
    for (uint32_t i = 0; i < task.num_reads; ++i) {
      const uint32_t operand = task.first_operand + i;
      before[operand] = writes[place_of(plan, plan.operands[operand])];
    }
    for (const Region& write : task.writes(plan)) ++writes[place_of(plan, write)];
  }
  return before;
}

// Calls visit(instr, kernel) for the tasks of a lane; `kernel`: a bit for the boundaries before it,
// where there are many one for several.
template <typename Visit>
void for_each_task(const Lane& lane, const Visit& visit) {
  uint64_t kernel = 1;
  for (const Instr& instr : lane.instrs) {
    if (instr.op == Opcode::boundary && kernel >> 63 == 0) kernel <<= 1;
    if (instr.is_task()) visit(instr, kernel);
  }
}

// By place: the kernels of its rank's compute lanes that write there; all, if anyone else does.
std::vector<uint64_t> writing_kernels(const Plan& plan) {
  std::vector<uint64_t> kernels(plan.buffers.size() * static_cast<size_t>(plan.ranks()), 0);
  for (const Lane& lane : plan.lanes) {
    for_each_task(lane, [&](const Instr& instr, uint64_t kernel) {
      for (const Region& write : plan.writes(instr)) {
        const bool own = lane.kind == LaneKind::compute && write.rank == lane.rank;
        kernels[place_of(plan, write)] |= own ? kernel : ~uint64_t{0};
      }
    });
  }
  return kernels;
}

struct LastRead {
  uint32_t lane = UINT32_MAX, operand = 0;
  bool is_first = true;
};

}  // namespace

ImpliedReads::ImpliedReads(const Draft& draft, const std::vector<TaskOperands>& tasks)
    : operands_(draft.plan.operands.data()) {
  const Plan& plan = draft.plan;
  // Tiles of a wave wait for what any of them reads.
  const std::vector<Schedule>& schedules = draft.schedule.products;
  if (std::any_of(schedules.begin(), schedules.end(),
                  [](const Schedule& one) { return one.start == Start::wave; })) {
    return;
  }
  const std::vector<uint64_t> kernels = writing_kernels(plan);
  const std::vector<uint32_t> before = writes_before(plan, tasks);
  implied_.assign(plan.operands.size(), false);
  std::vector<LastRead> last_reads(plan.buffers.size());
  for (uint32_t at = 0; at < plan.lanes.size(); ++at) {
    const Lane& lane = plan.lanes[at];
    for_each_task(lane, [&](const Instr& instr, uint64_t kernel) {
      for (uint32_t i = 0; i < instr.num_reads; ++i) {
        const uint32_t operand = instr.first_operand + i;
        const Region& region = plan.operands[operand];
        if (lane.kind == LaneKind::compute && region.rank == lane.rank &&
            (kernels[place_of(plan, region)] & kernel) == 0) {
          implied_[operand] = true;
        }
        LastRead& last = last_reads[region.buffer];
        const bool again = last.lane == at && before[last.operand] == before[operand] &&
                           plan.operands[last.operand] == region;
        if (again && !last.is_first) implied_[last.operand] = true;
        last = {at, operand, !again};
      }
    });
  }
}

}  // namespace stretto
