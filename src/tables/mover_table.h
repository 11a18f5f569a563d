// A mover table in GPU memory.
#pragma once

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

 private:
  DeviceMemory first_task_, tasks_, waits_, notifies_, regions_, routed_;
  MarkWords marks_;
  device::MoverParams params_{};
  int num_blocks_;
};

}  // namespace stretto::cuda
