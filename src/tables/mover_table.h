// A mover table in GPU memory.
#pragma once

#include "stretto/device/pass.h"
#include "tables/mark_words.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {

class DeviceMoverTable {
 public:
  // `marks`: tasks tell when they came how far. `bad_ids`: where partitions count ids that are no
  // expert's; null: nobody counts.
  DeviceMoverTable(const MoverTable& table, const device::SignalSpace& signals, bool marks = false,
                   device::uint64* bad_ids = nullptr);
  int num_blocks() const { return num_blocks_; }
  const device::MoverParams& params() const { return params_; }
  const MarkWords& marks() const { return marks_; }
  // A pass makes the tasks: by so many blocks.
  bool passes() const { return passes_; }
  int num_pass_blocks() const { return shared_by_ != 0 ? shared_by_ : num_blocks_ * slices_; }
  // Of the clusters that make partitions; 0: something else does the tasks.
  int cluster() const { return cluster_; }
  // With the mover's as they are at a call.
  device::PassParams pass_params(const device::MoverParams& mover) const {
    const int slices = shared_by_ != 0 ? 0 : slices_;
    return {mover, regions_of_task_, static_cast<device::uint32>(slices), awaits_};
  }

 private:
  DeviceMemory first_task_, tasks_, waits_, notifies_, regions_, routed_;
  MarkWords marks_;
  device::MoverParams params_{};
  int num_blocks_;
  bool passes_;
  int slices_, shared_by_, cluster_;
  device::uint32 regions_of_task_;
  bool awaits_;
};

}  // namespace stretto::cuda
