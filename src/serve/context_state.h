// What a context holds.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calls/call_graph_room.h"
#include "calls/shared_results.h"
#include "core/forks.h"
#include "fabric/job.h"
#include "gpu/compiler.h"
#include "serve/learning.h"
#include "serve/operation_workspace.h"
#include "serve/stream_order.h"
#include "streams/kernel_store.h"
#include "stretto/context.h"
#include "stretto/machine.h"
#include "stretto/tune.h"

namespace stretto {

struct Context::State {
  State(std::unique_ptr<fabric::Fabric> opened, const ContextOptions& options);
  ~State();

  // Collective.
  std::unique_ptr<OperationWorkspace> make_workspace(const runtime::WorkspaceSize& size,
                                                     bool of_one_plan);

  double default_budget_ms() const;
  // A stream of this process, as far as the context knows it, is being captured: what waits for a
  // whole GPU would end that. Empty: none is.
  std::string why_not_wait() const;
  // Throws SystemError in a fork of the process that opened the context.
  void require_own_process() const;
  bool is_forked() const { return num_forks() != forks; }
  // Throws UsageError when the rank is not of this process; SystemError in a fork.
  size_t local(int rank) const;
  const cuda::Device& device(int rank) const;

  const int forks = num_forks();
  uint64_t timeout_ns;
  std::unique_ptr<fabric::Fabric> fabric;
  cuda::Compiler compiler;
  runtime::KernelStore kernels;
  runtime::SharedResults results;
  std::unique_ptr<OperationWorkspace> workspace;  // of all operations; null: each has its own
  Tuning tuning;
  Machine machine;  // plans are made for
  std::unique_ptr<Learning> learning;
  std::deque<runtime::CallGraphRoom> call_graphs;      // by local rank, of all operations
  std::vector<std::shared_ptr<StreamOrder>> orders;    // by local rank; none: the caller's to order
  std::vector<std::unique_ptr<cuda::Stream>> streams;  // by local rank
  std::vector<std::vector<cuda::DeviceMemory>> memory;  // the same
  // By operation: whether a stream that it last ran on is being captured.
  std::map<const void*, std::function<bool()>> is_captured;
  // Operations that ended while their last stream was being captured: nobody could wait for it.
  std::vector<std::shared_ptr<void>> left;
};

}  // namespace stretto
