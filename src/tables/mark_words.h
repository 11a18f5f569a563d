// The memory in which the tasks of one kernel tell when they came how far (stretto/device/marks.h).
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "stretto/device/marks.h"

namespace stretto::cuda {

class MarkWords {
 public:
  MarkWords() = default;
  // Takes memory of the current GPU, all 0.
  MarkWords(size_t blocks, size_t tasks);
  // Null without memory.
  device::TaskMarks view() const;
  // What the last run left: a word for each block, then kMarks for each task, block by block.
  // While no run is under way; the GPU is current.
  std::vector<uint64_t> read() const;

 private:
  DeviceMemory words_;
  size_t blocks_ = 0;
};

}  // namespace stretto::cuda
