// Runs a plan on the GPUs of this process: memory on every rank, tables, launches, errors.
//
// Rank r is GPU r. Peers reach each other's memory directly. Runs are stream-ordered on each rank;
// the epoch lives on the GPU, so a captured graph can be launched many times.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/gemm_kernel.h"
#include "cuda/plan_tables.h"

namespace stretto::cuda {

// All GPUs that a plan needs, with access to each other. Throws SystemError.
class PeerGroup {
 public:
  explicit PeerGroup(int ranks);
  int ranks() const { return static_cast<int>(devices_.size()); }
  const Device& device(int rank) const { return *devices_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

class PlanRunner {
 public:
  // The plan must outlive the runner. Throws UsageError(why_not_on_cuda()) with all reasons.
  PlanRunner(const Plan& plan, const PeerGroup& group, const Compiler& compiler,
             uint64_t timeout_ns = 2'000'000'000);
  ~PlanRunner();
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  // Memory of buffer `name`'s instance that run 0 uses; inputs and outputs have one.
  DevicePtr buffer(std::string_view name, int rank) const;
  const Stream& stream(int rank) const;

  // Enqueues one run on a rank's stream; the caller's thread must have that GPU current.
  void enqueue(int rank);
  // Waits for all ranks. Throws SystemError naming the first wait that expired; the runner can then
  // be used again.
  void finish();

 private:
  struct Rank;
  void reset_signals();
  std::string describe_error(int rank, const device::WaitError& error) const;

  const Plan& plan_;
  const PeerGroup& group_;
  SignalLayout signals_;
  uint64_t timeout_ns_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace stretto::cuda
