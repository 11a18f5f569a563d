// A plan's lanes of one rank as the tables that the kernels walk.
#pragma once

#include <vector>

#include "cuda/gemm_table.h"
#include "stretto/device/mover_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Where every instance of every buffer lies: [rank][buffer][copy], addresses as this rank sees
// them.
using BufferPlaces = std::vector<std::vector<std::vector<DevicePtr>>>;

// Signals of a plan in one flat space: array by array, instance by instance.
struct SignalLayout {
  std::vector<uint32_t> first;  // of each array's instance 0
  uint32_t num_signals = 0;
  std::vector<std::vector<uint64_t>> per_run;  // [rank][flat index of instance 0]: a run's sum

  explicit SignalLayout(const Plan& plan);
  // "slots.12", from the flat index of any instance.
  std::string name_of(const Plan& plan, uint32_t signal) const;
};

struct MoverTable {
  std::vector<std::vector<device::MoverTask>> blocks;
  std::vector<device::WaitEntry> waits;
  std::vector<device::NotifyEntry> notifies;
  std::vector<std::vector<device::MoverRegion>> regions;  // by set
};

struct RankTables {
  device::GemmConfig config;
  GemmTable gemm;    // no blocks when the rank computes nothing
  MoverTable mover;  // communication lanes
  MoverTable tail;   // what compute lanes do after their last tile
};

// Why the CUDA target cannot run this plan; empty when it can.
std::vector<std::string> why_not_on_cuda(const Plan& plan);

// The kernel that suits the plan's tiles. Throws UsageError when there is none.
device::GemmConfig config_for(const Plan& plan);

RankTables tables_for(const Plan& plan, int rank, const BufferPlaces& places,
                      const SignalLayout& signals);

// Instances that runs alternate between: the period after which buffers are the same again.
int num_sets(const Plan& plan);

}  // namespace stretto::cuda
