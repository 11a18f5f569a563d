// The grouped kernel of Hopper: products of many experts with the rows that a partition on the
// device gives them (grouped_task.h).
//
//   load warp    feeds stages of weights by TMA, and of tokens where their rows are sorted; the
//                first weights while the kernel ahead of this one still runs
//   four warps   gather rows of tokens by index where they are not
//   consumers    warpgroups; multiply stages with wgmma, finish tiles, hand them over in chunks
//   store warp   sends chunks to sorted rows of the output, or to rows by index
#pragma once

#include "stretto/device/grouped_load.h"
#include "stretto/device/grouped_multiply.h"
#include "stretto/device/grouped_store.h"
#include "stretto/device/launch_order.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <GroupedConfig kConfig>
STRETTO_DEVICE void grouped_sm90(const GroupedParams& params) {
  static_assert(has_registers(kConfig));
  constexpr RegisterBudget kRegisters = registers_of(kConfig);
  extern __shared__ uint8 shared_memory[];
  const GroupedShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const uint32 lane = threadIdx.x % 32;
  constexpr uint32 kLoadWarp = layout_of(kConfig).consumers * 4;
  constexpr uint32 kGatherWarp = kLoadWarp + 4;
  if (warp == kLoadWarp && lane < 1 + kMostUnits + kRowMaps) {
    prefetch_tensor_map(&params.weights + lane);
  }
  if (threadIdx.x == 0) shared.init_barriers();
  const bool is_early = params.is_partition_early != 0;
  if (!is_early) wait_for_stream();
  shared.copy_counts(params);
  __syncthreads();
  if (warp == 0) shared.number_tiles(params);
  __syncthreads();
  if constexpr (kConfig.ranges > 1) cluster_sync();  // behind which others reach the barriers
  // Tiles are awaited by who loads them. What others read stands early, and what they write the
  // kernel ahead does not touch.
  if (shared.awaits_tiles(params)) {
    let_next_start();
  } else if (is_early && warp != kLoadWarp) {
    wait_for_stream();
  }

  if (warp >= kLoadWarp) {
    give_registers<kRegisters.mover>();
    if (warp == kLoadWarp) grouped_load<kConfig>(params, shared);
    if (warp == kLoadWarp + 1) grouped_store<kConfig>(params, shared);
    if constexpr (kConfig.gathers) {
      if (warp >= kGatherWarp) grouped_gather<kConfig>(params, shared, warp - kGatherWarp);
    }
  } else {
    take_registers<kRegisters.consumer>();
    GroupedConsumer<kConfig>(params, shared, warp / 4).run();
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
