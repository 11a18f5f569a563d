// A workspace that operations' plans take turns on, with the fence between them.
#pragma once

#include <memory>
#include <vector>

#include "run/plan_runner.h"

namespace stretto {

class OperationWorkspace {
 public:
  // Collective. `num_bytes` as of Workspace. One that a single plan uses has no fence.
  OperationWorkspace(fabric::Fabric& fabric, runtime::KernelStore& kernels, uint64_t timeout_ns,
                     size_t num_bytes, bool of_one_plan);

  runtime::Workspace& memory() { return memory_; }
  // Before a run of `runner` on a stream of the rank, whose GPU is current.
  void enter(int rank, cuda::StreamHandle stream, const runtime::PlanRunner& runner);
  // Of the fences; null: there are none.
  runtime::PlanRunner* fence() { return fence_.get(); }

 private:
  int first_rank_;
  runtime::Workspace memory_;
  std::vector<runtime::WorkspaceTurns> turns_;  // by local rank
  Plan plan_;                                   // the fence
  std::unique_ptr<runtime::PlanRunner> fence_;
};

}  // namespace stretto
