// The tasks of a draft in the order of its program.
#pragma once

#include <span>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Calls visit(at, ref, instr) for every task. Neighbours in the program are of different lanes, so
// what comes later is asked for ahead: each would be a miss of the cache.
template <typename Visit>
void for_each_task(const Draft& draft, const Visit& visit) {
  constexpr size_t kAhead = 24;
  const std::vector<Lane>& lanes = draft.plan.lanes;
  const size_t count = draft.program.size();
  for (size_t at = 0; at < count; ++at) {
    if (at + kAhead < count) {
      const InstrRef& later = draft.program[at + kAhead];
      __builtin_prefetch(&lanes[later.lane].instrs[later.pos]);
    }
    const InstrRef& ref = draft.program[at];
    const Instr& instr = lanes[ref.lane].instrs[ref.pos];
    if (instr.is_task()) visit(static_cast<uint32_t>(at), ref, instr);
  }
}

// What of a task says what it touches, for passes that come again.
struct TaskOperands {
  uint32_t at = 0, lane = 0;
  uint32_t first_operand = 0;
  uint16_t num_reads = 0, num_writes = 0;

  std::span<const Region> reads(const Plan& plan) const {
    return {plan.operands.data() + first_operand, num_reads};
  }
  std::span<const Region> writes(const Plan& plan) const {
    return {plan.operands.data() + first_operand + num_reads, num_writes};
  }
};

// In the order of the program.
inline std::vector<TaskOperands> operands_of_tasks(const Draft& draft) {
  std::vector<TaskOperands> tasks;
  tasks.reserve(draft.program.size());
  for_each_task(draft, [&](uint32_t at, const InstrRef& ref, const Instr& instr) {
    tasks.push_back({at, ref.lane, instr.first_operand, instr.num_reads, instr.num_writes});
  });
  return tasks;
}

}  // namespace stretto
