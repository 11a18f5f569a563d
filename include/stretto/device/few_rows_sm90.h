// The kernel of few rows of Hopper (few_rows_task.h).
//
//   load warps   feed stages by TMA, one those of each weight, one those of tokens: a thread takes
//                as long to ask for a box as SMs here take to read one
//   consumers    one or two warpgroups; multiply stages in turns, or each half of their columns,
//                with wgmma
//   all          add up what consumers and ranges of K have, round, and send vectors
//   senders      or these alone send them, a tile beside the next one's multiplications; the last
//                tile is sent by consumers, too
//
// A block has one tile, or a range of its K; or, with senders, every gridDim.x-th tile. A stage of
// blocks that share is free for a piece that one of them loads when all have multiplied what was
// there.
#pragma once

#include "stretto/device/few_rows_load.h"
#include "stretto/device/few_rows_multiply.h"
#include "stretto/device/few_rows_send.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_elect.h"
#include "stretto/device/ptx_memory.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// What the thread of a load warp brings of a tile: weights, tokens, or a gate's second weights.
template <FewRowsConfig kConfig>
STRETTO_DEVICE FewRowsOperand few_rows_operand(const FewRowsParams& params,
                                               const FewRowsShared<kConfig>& shared,
                                               const FewRowsPart& part, uint32 load_warp) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  if (load_warp != 1) {
    constexpr uint32 kMask = (1u << kConfig.row_blocks) - 1;
    constexpr int32 kBytes = kConfig.stored_columns() * kTileK * 2;  // of a weight
    const bool is_first = !kConfig.is_gated() || load_warp == 0;
    return {is_first ? &params.weights : &params.beside,
            part.column,
            is_first ? shared.a : shared.a + kBytes,
            shared.a_empty,
            kLayout.a_bytes,
            kBytes,
            part.of_rows,
            kConfig.row_blocks,
            static_cast<uint16>(kMask << part.of_columns * kConfig.row_blocks)};
  }
  uint32 mask = 0;
#pragma unroll
  for (uint32 i = 0; i < kConfig.column_blocks; ++i) mask |= 1u << i * kConfig.row_blocks;
  return {&params.tokens,
          part.row,
          shared.b,
          shared.b_empty,
          kLayout.b_bytes,
          kLayout.b_bytes,
          part.of_columns,
          kConfig.column_blocks,
          static_cast<uint16>(mask << part.of_rows)};
}

// A block with tiles that it sends one beside the next.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_in_turn(const FewRowsParams& params,
                                     const FewRowsShared<kConfig>& shared, uint32 warp) {
  constexpr uint32 kConsumerWarps = FewRowsShared<kConfig>::kConsumerWarps;
  constexpr uint32 kFirstSender = kConsumerWarps + 2, kSending = kConfig.senders * 32;
  constexpr uint32 kAll = kConsumerWarps * 32 + kSending;  // that send the last tile
  const uint32 tiles = params.row_groups * params.column_groups;
  RingPosition ring{};
  // A turn is a tile of this block's: rounded rows have one place, which turns fill and leave.
  if (warp < kConsumerWarps) {
    wait_for_stream();
#pragma unroll 1
    for (uint32 tile = blockIdx.x, turn = 0; tile < tiles; tile += gridDim.x, ++turn) {
      const FewRowsPart part = part_of_block<kConfig>(params, tile);
      float sums[kConfig.rows / 2];
      few_rows_multiply<kConfig>(shared, warp / 4, part, ring, sums);
      barrier_wait(shared.kept_empty, turn % 2 ^ 1);
      few_rows_keep_rounded<kConfig>(shared, warp / 4, params.targets.state != nullptr, sums);
      if (tile + gridDim.x >= tiles) {
        group_barrier(1, kAll);
        few_rows_send_rounded<kConfig, kAll, 1>(params, shared, part, threadIdx.x);
      } else {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(shared.kept_full);
      }
    }
  } else if (warp >= kFirstSender) {
    wait_for_stream();
#pragma unroll 1
    for (uint32 tile = blockIdx.x, turn = 0; tile < tiles; tile += gridDim.x, ++turn) {
      const FewRowsPart part = part_of_block<kConfig>(params, tile);
      const uint32 sender = threadIdx.x - kFirstSender * 32;
      if (tile + gridDim.x >= tiles) {
        group_barrier(1, kAll);
        few_rows_send_rounded<kConfig, kAll, 1>(params, shared, part, kAll - kSending + sender);
      } else {
        barrier_wait(shared.kept_full, turn % 2);
        few_rows_send_rounded<kConfig, kSending, 4>(params, shared, part, sender);
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(shared.kept_empty);
      }
    }
  } else if (!is_elected()) {
    wait_for_stream();
  } else {
    const uint32 load_warp = warp - kConsumerWarps;
    const uint32 early = load_warp == 0 && params.weights_early != 0 ? kConfig.stages : 0;
#pragma unroll 1
    for (uint32 tile = blockIdx.x, turn = 0; tile < tiles; tile += gridDim.x, ++turn) {
      const FewRowsPart part = part_of_block<kConfig>(params, tile);
      few_rows_load<kConfig>(shared, part,
                             few_rows_operand<kConfig>(params, shared, part, load_warp), turn == 0,
                             early, ring);
    }
  }
}

// A block with one tile, or a range of its K.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_at_once(const FewRowsParams& params,
                                     const FewRowsShared<kConfig>& shared, uint32 warp) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  constexpr uint32 kConsumerWarps = FewRowsShared<kConfig>::kConsumerWarps;
  const FewRowsPart part = part_of_block<kConfig>(params, blockIdx.x);
  RingPosition ring{};
  // Whole warps part here, not lanes: else places of stages would not be known to be a warp's.
  if (warp < kConsumerWarps) {
    wait_for_stream();
    float sums[kConfig.rows / 2];
    few_rows_multiply<kConfig>(shared, warp / 4, part, ring, sums);
    group_barrier(1, kConsumerWarps * 32);  // no stage is read any longer
    if constexpr (kLayout.is_rounded) {
      few_rows_keep_rounded<kConfig>(shared, warp / 4, params.targets.state != nullptr, sums);
    } else {
      few_rows_keep<kConfig>(shared, warp / 4, sums);
    }
  } else if (!is_elected()) {
    wait_for_stream();
  } else if (warp != kConsumerWarps + 1) {
    few_rows_load<kConfig>(shared, part,
                           few_rows_operand<kConfig>(params, shared, part, warp - kConsumerWarps),
                           true, params.weights_early != 0 ? kConfig.stages : 0, ring);
  } else {
    few_rows_load<kConfig>(shared, part, few_rows_operand<kConfig>(params, shared, part, 1), true,
                           0, ring);
  }
  __syncwarp();
  if constexpr (kConfig.splits > 1) {
    cluster_sync_shared();
  } else {
    __syncthreads();
  }
  few_rows_send<kConfig, static_cast<uint32>(kLayout.threads)>(params, shared, part, threadIdx.x);
  __syncwarp();
  // Until then others read this one's sums, or say that its pieces are read.
  if constexpr (kConfig.cluster() > 1) cluster_sync();
}

template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_sm90(const FewRowsParams& params) {
  extern __shared__ uint8 shared_memory[];
  const FewRowsShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
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
  if constexpr (kConfig.sends_beside()) {
    few_rows_in_turn<kConfig>(params, shared, warp);
  } else {
    few_rows_at_once<kConfig>(params, shared, warp);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
