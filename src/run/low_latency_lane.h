// Makes a plan's collectives by kernels of the device language instead of NCCL.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fabric/lang_group.h"
#include "run/kernel_store.h"
#include "tables/low_latency.h"

namespace stretto::runtime {

class LowLatencyLane {
 public:
  // Collective. Each collective of the plan has memory of its own. The others must outlive the
  // lane.
  LowLatencyLane(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
                 uint64_t timeout_ns);

  // One rank's part of the collective with this id of the plan, on its GPU, which is current. Calls
  // with other rows, told in whichever way, may follow each other.
  void launch(int32_t id, int rank, const cuda::Stream& stream, const cuda::LowLatencyCall& call);

  // Whether a wait has failed, on whatever rank; and what went wrong on this process's ranks.
  bool is_aborted() const { return group_->is_aborted(); }
  bool is_told() const { return group_->is_told(); }  // as RunState::is_told()
  std::string own_problem() const { return group_->own_problem(); }
  // Collective, once all runs have ended: what went wrong in them, empty when nothing did; then
  // everything is as at first.
  std::string take_problem();

 private:
  struct Collective {
    cuda::LowLatencyShape shape;
    uint64_t most = 0;                      // vectors of a rank's part
    size_t slots = 0, greetings = 0;        // in the heap
    std::vector<cuda::DeviceMemory> state;  // by local rank
    std::vector<const cuda::LangKernel*> kernels;
  };
  void clear_states();

  fabric::Fabric& fabric_;
  std::map<int32_t, Collective> collectives_;
  std::unique_ptr<fabric::LangGroup> group_;
};

}  // namespace stretto::runtime
