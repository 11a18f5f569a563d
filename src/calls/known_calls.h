// Which calls' addresses have been looked at: whose memory they are, and that no output lies on
// another tensor.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calls/call_tensors.h"
#include "gpu/device.h"
#include "gpu/memory_owner.h"

namespace stretto::runtime {

// Of one rank. A call that came before, among the last few hundred, asks the driver nothing.
class KnownCalls {
 public:
  // Throws UsageError naming the tensor: it is not in memory of the rank's GPU, or shares elements
  // with another that one of them is written to. `rows_at`: where memory says the rows, else 0.
  void require_good(const CallTensors& tensors, const cuda::Device& device, int rank,
                    cuda::CallPlaces places, cuda::DevicePtr rows_at);

 private:
  using Key = std::vector<uint64_t>;
  void require_on_gpu(const std::string& tensor, cuda::DevicePtr begin, cuda::DevicePtr end,
                      const cuda::Device& device);

  std::array<Key, 256> known_;  // by what their numbers come to
  // Of the GPU's memory, in which tensors were found. Who gives one back to the driver is not seen.
  std::vector<cuda::Piece> pieces_;
};

}  // namespace stretto::runtime
