// The tensors of an operation: the caller's, or its own, in memory that all ranks reach.
#pragma once

#include <vector>

#include "fabric/fabric.h"
#include "run/plan_memory.h"
#include "stretto/context.h"

namespace stretto::runtime {

// A tensor of every local rank: the caller's, or all ranks' in a region.
struct OperationTensor {
  std::vector<GpuAddress> addresses;  // by local rank
  fabric::Region region;
  bool is_own = false;
};

struct OperationTensors {
  OperationTensor a, b, out;

  Bindings bindings() const;
};

// Collective where a tensor is not given. `op` has as many rows as tensors have room for; `given`
// is by local rank, or empty. Throws UsageError for tensors that do not fit.
OperationTensors place_tensors(fabric::Fabric& fabric, const Segment& op,
                               const std::vector<RankTensors>& given);

}  // namespace stretto::runtime
