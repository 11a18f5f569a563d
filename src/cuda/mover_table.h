// A mover table in GPU memory.
#pragma once

#include "cuda/plan_tables.h"

namespace stretto::cuda {

class DeviceMoverTable {
 public:
  DeviceMoverTable(const MoverTable& table, const device::SignalSpace& signals);
  int num_blocks() const { return num_blocks_; }
  const device::MoverParams& params() const { return params_; }

 private:
  DeviceMemory first_task_, tasks_, waits_, notifies_, regions_;
  device::MoverParams params_{};
  int num_blocks_;
};

}  // namespace stretto::cuda
