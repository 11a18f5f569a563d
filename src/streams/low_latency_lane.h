// Makes those of a plan's collectives that are kernels of the device language and not NCCL's: all
// of them, by the project's, or some, by the graph's own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fabric/lang_group.h"
#include "plan/kernel_calls.h"
#include "streams/kernel_store.h"
#include "stretto/device/few_rows_task.h"
#include "tables/low_latency_shape.h"

namespace stretto::runtime {

class LowLatencyLane {
 public:
  // Collective. Each collective of the plan has memory of its own. The others must outlive the
  // lane.
  LowLatencyLane(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
                 uint64_t timeout_ns);

  // One rank's part of the collective with this id of the plan, on its GPU, which is current. Calls
  // with other rows, told in whichever way, may follow each other. One that only receives begins
  // while the kernel before it runs, where it `starts_early`: that must be what sends.
  void launch(int32_t id, int rank, const cuda::Stream& stream, const cuda::LowLatencyCall& call,
              bool starts_early = true);
  // Where a rank's product sends its rows, right before the launch of a collective that receives
  // them; not of a call whose rows stand in memory.
  device::RowTargets targets(int32_t id, int rank, const cuda::LowLatencyCall& call) const;

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
    uint64_t most = 0;                // vectors of a rank's part
    uint64_t row_vectors = 0;         // of a row of what is moved
    size_t slots = 0, greetings = 0;  // in the heap
    size_t signals = 0;               // there too, of a kernel of the graph's
    KernelCallSizes sizes;            // that one's, of every call
    bool is_own = false;              // a kernel of the graph's makes it
    int32_t columns = 0;              // of what blocks that make a partition read of each other
    // By local rank: of each block, then where these meet, then what they read.
    std::vector<cuda::DeviceMemory> state;
    size_t state_words() const;
    std::vector<const cuda::LangKernel*> kernels;
  };
  static const cuda::LangKernel& kernel_of(const Collective& made, KernelStore& kernels,
                                           const cuda::Device& own);
  void clear_states();

  fabric::Fabric& fabric_;
  std::map<int32_t, Collective> collectives_;
  std::unique_ptr<fabric::LangGroup> group_;
};

}  // namespace stretto::runtime
