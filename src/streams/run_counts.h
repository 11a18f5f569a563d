// The words in which the blocks of a rank's kernels count their runs (stretto/device/signal.h), or
// a stream does.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "stretto/device/types.h"

namespace stretto::runtime {

// On the GPU that is current when it is called.
class RunCounts {
 public:
  // Words for a kernel of so many blocks, all 0.
  device::uint64* add(int blocks);
  bool empty() const { return words_.empty(); }
  // While no run is under way: the next one is the first.
  void restart();
  // At any time. They change whenever a kernel begins.
  std::vector<uint64_t> read() const;

 private:
  std::vector<cuda::DeviceMemory> words_;  // by kernel
};

}  // namespace stretto::runtime
