// The tasks of a draft in the order of its program.
#pragma once

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

}  // namespace stretto
