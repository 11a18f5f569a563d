#include "serve/operation_workspace.h"

#include <fmt/format.h>

#include <utility>

#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// A fence has ranks and nothing else; any operator of so many will do.
Operator operator_of(int ranks) {
  return Segment{kGemmAr, ranks, 8, int64_t{8} * ranks, ranks, DType::bf16};
}

// Runs that came behind another operation's may have begun before all ranks had ended that.
std::string behind_a_failure(const std::string& problem) {
  return fmt::format("a run of another operation on the same workspace failed: {}", problem);
}

}  // namespace

OperationWorkspace::OperationWorkspace(fabric::Fabric& fabric, runtime::KernelStore& kernels,
                                       uint64_t timeout_ns, const runtime::WorkspaceSize& size,
                                       bool of_one_plan)
    : fabric_(fabric),
      kernels_(kernels),
      timeout_ns_(timeout_ns),
      of_one_plan_(of_one_plan),
      memory_(fabric, size),
      turns_(static_cast<size_t>(fabric.num_local())),
      plan_(runtime::fence_plan(operator_of(fabric.ranks()),
                                fabric.device(fabric.first_rank()).num_sms())) {}

runtime::Workspace& OperationWorkspace::memory_of_next() {
  memory_.expect_behind(turns_.front().recent());
  return memory_;
}

// Before the plan's first run: a graph that holds it may be launched behind any later plan's.
void OperationWorkspace::welcome(const runtime::PlanRunner& runner) {
  if (of_one_plan_ || fence_ || runner.memory().shared_bytes() == 0) return;
  runtime::RunnerOptions options;
  options.timeout_ns = timeout_ns_;
  fence_ = std::make_unique<runtime::PlanRunner>(plan_, fabric_, kernels_, options);
}

void OperationWorkspace::enter(int rank, cuda::StreamHandle stream,
                               const runtime::PlanRunner& runner) {
  if (!fence_ || runner.memory().shared_bytes() == 0) return;
  const auto local = static_cast<size_t>(rank - fabric_.first_rank());
  const std::optional<uint64_t> capture = cuda::Stream(stream).capture();
  // Noted last: where the fence is refused, the next run needs it all the same.
  const runtime::WorkspaceUse& use = runner.workspace_use();
  if (turns_[local].needs_fence(use, capture)) fence_->enqueue(rank, stream);
  turns_[local].note(use, capture);
}

std::string OperationWorkspace::finish_fences() {
  if (!fence_) return "";
  try {
    fence_->finish();
  } catch (const SystemError& error) {
    forget_turns();
    if (!fence_->has_met()) throw;  // nor would the others
    count_failure(error.what());
  }
  // What a rank has enqueued before this operation's runs has ended with them.
  const runtime::PlanRunner* const failed = memory_.failed_fence();
  const double failures = runtime::largest(fabric_, "whether runs that stand for fences failed",
                                           {failed != nullptr ? 1.0 : 0.0})
                              .front();
  if (failures == 0) return "";
  forget_turns();
  return behind_a_failure(failed != nullptr ? failed->problem() : "another process says which");
}

void OperationWorkspace::note_failed(const runtime::PlanRunner& runner, std::string problem) {
  if (fence_ && runner.workspace_use().is_fence) count_failure(behind_a_failure(problem));
}

void OperationWorkspace::count_failure(std::string problem) {
  ++failures_;
  last_failure_ = std::move(problem);
}

void OperationWorkspace::forget_turns() {
  for (runtime::WorkspaceTurns& turns : turns_) turns.forget();
}

std::string OperationWorkspace::problem_since(uint64_t told) const {
  if (failures_ != told) return last_failure_;
  if (!fence_) return "";
  if (const runtime::PlanRunner* const failed = memory_.failed_fence()) {
    return behind_a_failure(failed->problem());
  }
  return fence_->problem();
}

}  // namespace stretto
