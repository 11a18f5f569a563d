// A caller's tensors on every rank of this process, as calls that have not come yet may have them:
// standard normal values, weights of several products scaled so that no tensor grows from stage to
// stage, and indices that are all as likely.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/device.h"
#include "stretto/call.h"
#include "stretto/operator.h"

namespace stretto::runtime {

class RandomTensors {
 public:
  // Needs no kernel: a block of values is made here and copied all over; indices, which are few,
  // are made one by one. Throws SystemError.
  RandomTensors(const Operator& op, fabric::Fabric& fabric);
  // What a rank has of them at most.
  static size_t bytes_of(const Operator& op);
  ~RandomTensors();
  RandomTensors(const RandomTensors&) = delete;
  RandomTensors& operator=(const RandomTensors&) = delete;

  std::span<const CallTensor> of(int rank) const {
    return ranks_[static_cast<size_t>(rank - fabric_.first_rank())].tensors;
  }

 private:
  struct Rank {
    std::vector<cuda::DeviceMemory> memory;
    std::vector<CallTensor> tensors;
  };

  fabric::Fabric& fabric_;
  std::vector<std::string> names_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::runtime
