// The kernel of few rows of Hopper (few_rows_task.h).
//
//   load warps   feed stages by TMA, one those of each weight, one those of tokens: a thread takes
//                as long to ask for a box as SMs here take to read one
//   consumers    one or two warpgroups; multiply stages in turns, or each half of their columns,
//                with wgmma
//   all          add up what consumers and ranges of K have, round, and send vectors
//
// A block has one tile, or a range of its K. A stage of blocks that share is free for a piece that
// one of them loads when all have multiplied what was there.
#pragma once

#include "stretto/device/few_rows_load.h"
#include "stretto/device/few_rows_multiply.h"
#include "stretto/device/few_rows_send.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_memory.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_sm90(const FewRowsParams& params) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  constexpr uint32 kConsumerWarps = FewRowsShared<kConfig>::kConsumerWarps;
  extern __shared__ uint8 shared_memory[];
  const FewRowsShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const FewRowsPart part = part_of_block<kConfig>(params);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&params.weights);
    prefetch_tensor_map(&params.tokens);
    if constexpr (kConfig.is_gated()) prefetch_tensor_map(&params.beside);
    shared.init_barriers();
  }
  if constexpr (kConfig.shares()) {
    cluster_sync();  // pieces of others may come
  } else {
    __syncthreads();
  }
  // Whole warps part here, not lanes: else places of stages would not be known to be a warp's.
  if (warp < kConsumerWarps) {
    wait_for_stream();
    float sums[kConfig.rows / 2];
    few_rows_multiply<kConfig>(shared, warp / 4, part, sums);
    group_barrier(1, kConsumerWarps * 32);  // no stage is read any longer
    if constexpr (kLayout.is_rounded) {
      few_rows_keep_rounded<kConfig>(shared, warp / 4, params.targets.state != nullptr, sums);
    } else {
      few_rows_keep<kConfig>(shared, warp / 4, sums);
    }
  } else if (threadIdx.x % 32 != 0) {
    wait_for_stream();
  } else if (warp != kConsumerWarps + 1) {
    constexpr uint32 kMask = (1u << kConfig.row_blocks) - 1;
    constexpr int32 kBytes = kConfig.stored_columns() * kTileK * 2;  // of a weight
    const bool is_first = !kConfig.is_gated() || warp == kConsumerWarps;
    const FewRowsOperand weights{
        is_first ? &params.weights : &params.beside,
        part.column,
        is_first ? shared.a : shared.a + kBytes,
        shared.a_empty,
        kLayout.a_bytes,
        kBytes,
        part.of_rows,
        kConfig.row_blocks,
        static_cast<uint16>(kMask << part.of_columns * kConfig.row_blocks)};
    few_rows_load<kConfig>(shared, part, weights, params.weights_early != 0 ? kConfig.stages : 0);
  } else {
    uint32 mask = 0;
#pragma unroll
    for (uint32 i = 0; i < kConfig.column_blocks; ++i) mask |= 1u << i * kConfig.row_blocks;
    const FewRowsOperand tokens{&params.tokens,
                                part.row,
                                shared.b,
                                shared.b_empty,
                                kLayout.b_bytes,
                                kLayout.b_bytes,
                                part.of_columns,
                                kConfig.column_blocks,
                                static_cast<uint16>(mask << part.of_rows)};
    few_rows_load<kConfig>(shared, part, tokens, 0);
  }
  __syncwarp();
  if constexpr (kConfig.splits > 1) {
    cluster_sync_shared();
  } else {
    __syncthreads();
  }
  few_rows_send<kConfig>(params, shared, part);
  __syncwarp();
  // Until then others read this one's sums, or say that its pieces are read.
  if constexpr (kConfig.cluster() > 1) cluster_sync();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
