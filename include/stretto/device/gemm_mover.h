// GEMM and movers in one launch: its first blocks copy, the others multiply. So a run of a gather
// is one kernel, and the whole of it can be started while the kernel before it ends.
//
// In a kernel of clusters two blocks that multiply are one, or two that do not: a block between
// the last mover and the first of the others does nothing.
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/mover_task.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/gemm_sm90.h"
#include "stretto/device/mover.h"
#endif

namespace stretto::device {

struct GemmMoverParams {
  GemmParams gemm;
  MoverParams mover;  // all tasks are copies of whole vectors
  uint32 num_movers;
  uint32 first_multiplier;  // the first block that multiplies: num_movers, in whole clusters
};

// The blocks of so many movers.
STRETTO_HOST_DEVICE uint32 mover_blocks(const GemmConfig& config, uint32 num_movers) {
  const auto cluster = static_cast<uint32>(layout_of(config).cluster);
  return (num_movers + cluster - 1) / cluster * cluster;
}

STRETTO_HOST_DEVICE int32 shared_bytes_of(const GemmConfig& config) {
  const int32 bytes = layout_of(config).shared_bytes;
  return config.moves && bytes < kMoverSharedBytes ? kMoverSharedBytes : bytes;
}

#ifdef STRETTO_DEVICE

template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_with_movers(const GemmMoverParams& params) {
  static_assert(layout_of(kConfig).threads >= mover_threads(false));
  // Without clusters the two are the same, and tight kernels have no register for another.
  constexpr bool kClusters = layout_of(kConfig).cluster > 1;
  const uint32 first = kClusters ? params.first_multiplier : params.num_movers;
  if (blockIdx.x < params.num_movers) {
    run_mover<false>(params.mover, blockIdx.x);
  } else if (!kClusters || blockIdx.x >= first) {
    gemm_sm90<kConfig>(params.gemm, blockIdx.x - first);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
