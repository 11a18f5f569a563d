// A workspace that operations' plans take turns on, with the fence between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "run/plan_runner.h"

namespace stretto {

class OperationWorkspace {
 public:
  // Collective. One that a single plan uses has no fence.
  OperationWorkspace(fabric::Fabric& fabric, runtime::KernelStore& kernels, uint64_t timeout_ns,
                     const runtime::WorkspaceSize& size, bool of_one_plan);

  const runtime::Workspace& memory() const { return memory_; }
  // Where the next plan is to lie.
  runtime::Workspace& memory_of_next();
  // Collective. A plan has been made, whose runs may take turns with others' now.
  void welcome(const runtime::PlanRunner& runner);
  // Before a run of `runner` on a stream of the rank, whose GPU is current.
  void enter(int rank, cuda::StreamHandle stream, const runtime::PlanRunner& runner);
  // Of the fences; null: there are none.
  runtime::PlanRunner* fence() { return fence_.get(); }
  // Collective: PlanRunner::finish() of the fences. What ran on the workspace since is useless, of
  // whatever operation, so each of them is told, which keeps count of what it was told. Gives what
  // is known of other operations' runs that stood for fences and failed; empty: none did.
  std::string finish_fences();
  // A run that may have stood for a fence has failed, as its finish() has told all processes.
  void note_failed(const runtime::PlanRunner& runner, std::string problem);
  // What the last failure says, where there were more than `told`, or fences that have not been
  // finished; empty: nothing went wrong.
  std::string problem_since(uint64_t told) const;
  // A fence has failed, as far as a wait of this process's ranks has seen it.
  bool is_told() const { return fence_ && fence_->is_told(); }
  uint64_t failures() const { return failures_; }
  // Some run failed, and its finish() has told all processes: ranks may have made different runs.
  void forget_turns();

 private:
  void count_failure(std::string problem);

  fabric::Fabric& fabric_;
  runtime::KernelStore& kernels_;
  const uint64_t timeout_ns_;
  const bool of_one_plan_;
  runtime::Workspace memory_;
  std::vector<runtime::WorkspaceTurns> turns_;  // by local rank
  Plan plan_;                                   // the fence
  std::unique_ptr<runtime::PlanRunner> fence_;  // once a plan has memory here
  uint64_t failures_ = 0;
  std::string last_failure_;
};

}  // namespace stretto
