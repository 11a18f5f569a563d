// What the row of a kind is told of a task, where it says what kernels do with it.
#pragma once

#include <vector>

#include "stretto/plan.h"
#include "tasks/routed_kernel.h"

namespace stretto {

// Regions stay the plan's.
class OnKernel {
 public:
  OnKernel(const Plan& plan, const Instr& instr);

  tasks::KernelOperands operands() const {
    const std::span<const tasks::InBuffer> all(facts_);
    return {of_, all.first(of_.reads.size()), all.subspan(of_.reads.size())};
  }

 private:
  KindOperands of_;
  std::vector<tasks::InBuffer> facts_;  // of the reads, then of the writes
};

}  // namespace stretto
