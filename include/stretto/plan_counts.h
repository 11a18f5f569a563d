// How much there is in a plan.
#pragma once

#include <cstddef>

#include "stretto/plan.h"

namespace stretto {

struct PlanCounts {
  size_t tasks = 0, waits = 0, notifies = 0;
};

inline PlanCounts count(const Plan& plan) {
  PlanCounts found;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      found.tasks += instr.is_task();
      found.waits += instr.op == Opcode::wait;
      found.notifies += instr.op == Opcode::notify;
    }
  }
  return found;
}

}  // namespace stretto
