// The kernel of few rows of Hopper (few_rows_task.h).
//
//   load warp    feeds stages of weights and tokens by TMA
//   consumers    warpgroups; multiply stages with wgmma, 64 columns each
//   all          add up ranges of K, round, and send vectors
//
// A block has one tile, and blocks are as many as there are tiles: where two share an SM one
// multiplies while the other sends.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/few_rows_task.h"
#include "stretto/device/gemm_follow.h"
#include "stretto/device/lang/gpu_words.h"
#include "stretto/device/lang/numbers.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_tma.h"
#include "stretto/device/ptx_wgmma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Shared-memory addresses of one block; the same in all blocks of a cluster.
template <FewRowsConfig kConfig>
struct FewRowsShared {
  static constexpr FewRowsLayout kLayout = layout_of(kConfig);
  uint32 a, b, full, empty;

  STRETTO_DEVICE explicit FewRowsShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    b = a + kConfig.stages * kLayout.a_bytes;
    full = a + (kLayout.shared_bytes - 1024 - kConfig.stages * 16);
    empty = full + kConfig.stages * 8;
  }
  // Of a row of the tile and a column of it, once stages are no longer read.
  STRETTO_DEVICE uint32 sum(uint32 row, uint32 column) const {
    return a + (row * kLayout.pitch + column) * 4;
  }
  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, kConfig.columns / 16 * kConfig.sharing);  // consumers' warps
    }
    fence_barrier_init();
  }
};

// A block's part: which tile, and which blocks of K. It is number `share` of those that share
// tokens, which are blocks [first, ...) of the cluster.
struct FewRowsPart {
  uint32 row, column;
  uint32 first_k, end_k;
  uint32 first, share;
};
template <FewRowsConfig kConfig>
STRETTO_DEVICE FewRowsPart part_of_block(const FewRowsParams& params) {
  constexpr uint32 kCluster = layout_of(kConfig).cluster, kSharing = kConfig.sharing;
  const uint32 number = blockIdx.x / kCluster, in_cluster = blockIdx.x % kCluster;
  const uint32 range = in_cluster / kSharing, share = in_cluster % kSharing;
  const uint32 across = (params.column_tiles + kSharing - 1) / kSharing;
  const uint32 row_tile = number / across, column_tile = (number - row_tile * across) * kSharing;
  return {row_tile * kConfig.rows,
          (column_tile + share) * kConfig.columns,
          params.num_k * range / kConfig.splits,
          params.num_k * (range + 1) / kConfig.splits,
          range * kSharing,
          share};
}

template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_load(const FewRowsParams& params, const FewRowsShared<kConfig>& shared,
                                  const FewRowsPart& part) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  RingPosition ring{};
#pragma unroll 1
  for (uint32 k = part.first_k; k < part.end_k; ++k) {
    const uint32 full = shared.full + ring.slot * 8;
    barrier_wait(shared.empty + ring.slot * 8, ring.parity ^ 1);
    barrier_arrive_expect(full, kLayout.a_bytes + kLayout.b_bytes);
    tma_load(shared.a + ring.slot * kLayout.a_bytes, &params.weights, k * kTileK, part.column,
             full);
    const uint32 tokens = shared.b + ring.slot * kLayout.b_bytes;
    if constexpr (kConfig.sharing == 1) {
      tma_load(tokens, &params.tokens, k * kTileK, part.row, full);
    } else {
      constexpr uint32 kRows = kConfig.rows / kConfig.sharing, kAll = (1u << kConfig.sharing) - 1;
      const uint32 row = part.share * kRows;
      tma_load_multicast(tokens + row * kTileK * 2, &params.tokens, k * kTileK, part.row + row,
                         full, static_cast<uint16>(kAll << part.first));
    }
    ring.template advance<kConfig.stages>();
  }
}

template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_multiply(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                      const FewRowsPart& part, float (&sums)[kConfig.rows / 2]) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  const uint64 a_base = wgmma_descriptor(shared.a + consumer * (64 * kTileK * 2));
  const uint64 b_base = wgmma_descriptor(shared.b);
  const auto release = [&](uint32 slot) {
    const uint32 lane = threadIdx.x % 32, empty = shared.empty + slot * 8;
    if constexpr (kConfig.sharing == 1) {
      if (lane == 0) barrier_arrive(empty);
    } else {
      if (lane < kConfig.sharing) barrier_arrive_at(empty, part.first + lane);
    }
  };
  RingPosition ring{};
  const auto multiply_stage = [&](bool first) {
    barrier_wait(shared.full + ring.slot * 8, ring.parity);
    const uint64 a = a_base + ring.slot * (kLayout.a_bytes >> 4);
    const uint64 b = b_base + ring.slot * (kLayout.b_bytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int32 step = 0; step < kTileK / 16; ++step) {
      Wgmma<kConfig.rows, kConfig.bf16>::run(sums, a + step * kDescriptorStepK,
                                             b + step * kDescriptorStepK, !first || step != 0);
    }
    wgmma_commit();
  };
  multiply_stage(true);
  uint32 previous = ring.slot;
  ring.template advance<kConfig.stages>();
#pragma unroll 1
  for (uint32 k = part.first_k + 1; k < part.end_k; ++k) {
    multiply_stage(false);
    wgmma_wait<1>();
    release(previous);
    previous = ring.slot;
    ring.template advance<kConfig.stages>();
  }
  wgmma_wait<0>();
  // Keeps the compiler from reading sums ahead of the wait, which it does not see as their writer.
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

// A lane has rows r and r + 1 of every eight, of columns c and c + 8 of a consumer's 64.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_keep(const FewRowsShared<kConfig>& shared,
                                  const float (&sums)[kConfig.rows / 2]) {
  const uint32 lane = threadIdx.x % 32;
  const uint32 column = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int32 i = 0; i < kConfig.rows / 2; ++i) {
    const uint32 row = i / 4 * 8 + lane % 4 * 2 + i % 2;
    store_shared_word(shared.sum(row, column + i % 4 / 2 * 8), bits_of_float(sums[i]));
  }
}

// Adds eight sums that block `from` of the cluster has at this address of its shared memory.
template <int32 kSplits>
STRETTO_DEVICE void add_sums_of(uint32 from, uint32 address, float (&sums)[8]) {
  if constexpr (kSplits > 1) address = shared_address_in(from, address);
#pragma unroll
  for (int32 i = 0; i < 8; i += 4) {
    const Vec16 four =
        kSplits > 1 ? load_cluster_vector(address + i * 4) : load_shared_vector(address + i * 4);
#pragma unroll
    for (int32 j = 0; j < 4; ++j) sums[i + j] += float_of_bits(four.word[j]);
  }
}

// Vector v of the tile: its sums over ranges of K, rounded.
template <FewRowsConfig kConfig>
STRETTO_DEVICE Vec16 few_rows_rounded(const FewRowsShared<kConfig>& shared, const FewRowsPart& part,
                                      uint32 v) {
  constexpr uint32 kAcross = kConfig.columns / 8;
  using Half = typename HalfOf<kConfig.bf16>::Type;
  float sums[8] = {};
#pragma unroll
  for (int32 from = 0; from < kConfig.splits; ++from) {
    add_sums_of<kConfig.splits>(from * kConfig.sharing + part.share,
                                shared.sum(v / kAcross, v % kAcross * 8), sums);
  }
  Vec16 value;
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    value.word[i] = Half::canonical(Half::round_pair(sums[2 * i], sums[2 * i + 1]));
  }
  return value;
}

// The blocks with ranges of K of a tile share out its vectors; a thread has kAtOnce under way.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_send(const FewRowsParams& params, const FewRowsShared<kConfig>& shared,
                                  const FewRowsPart& part, uint64 calls) {
  constexpr uint32 kAcross = kConfig.columns / 8, kThreads = layout_of(kConfig).threads;
  constexpr uint32 kStep = kThreads * kConfig.splits, kAll = kConfig.rows * kAcross;
  constexpr uint32 kAtOnce = 4;
  const RowTargets& targets = params.targets;
  const uint64 buffer = calls % 2 * targets.parity_bytes;
  const auto row_of = [&](uint32 v) { return part.row + v / kAcross; };
  const auto column_of = [&](uint32 v) { return part.column + v % kAcross * 8; };
  const auto has = [&](uint32 v) {
    return v < kAll && row_of(v) < params.rows && column_of(v) < params.columns;
  };
#pragma unroll 1
  for (uint32 first = threadIdx.x + part.first / kConfig.sharing * kThreads; first < kAll;
       first += kAtOnce * kStep) {
    Vec16 values[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 v = first + i * kStep;
      if (v < kAll) values[i] = few_rows_rounded<kConfig>(shared, part, v);
    }
    const auto send = [&](uint32 i, uint32 rank, uint32 row) {
      const uint64 vector =
          static_cast<uint64>(row) * targets.row_vectors + column_of(first + i * kStep) / 8;
      store_strong(reinterpret_cast<Vec16*>(targets.slots[rank] + buffer + vector * 16), values[i],
                   Scope::kSystem);
    };
    if (targets.part_rows != 0) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        const uint32 v = first + i * kStep;
        if (!has(v)) continue;
        const uint32 owner = row_of(v) / targets.part_rows;
        send(i, owner, row_of(v) - owner * targets.part_rows);
      }
    } else {
#pragma unroll 1
      for (int32 k = 1; k <= params.ranks; ++k) {
        const int32 rank = params.rank + k;
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          const uint32 v = first + i * kStep;
          if (has(v)) send(i, rank < params.ranks ? rank : rank - params.ranks, row_of(v));
        }
      }
    }
  }
}

template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_sm90(const FewRowsParams& params) {
  constexpr int32 kConsumerWarps = kConfig.columns / 64 * 4;
  constexpr bool kHasCluster = layout_of(kConfig).cluster > 1;
  extern __shared__ uint8 shared_memory[];
  const FewRowsShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const FewRowsPart part = part_of_block<kConfig>(params);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&params.weights);
    prefetch_tensor_map(&params.tokens);
    shared.init_barriers();
  }
  wait_for_stream();
  const uint64 calls = *params.targets.state;
  if constexpr (kConfig.sharing > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  float sums[kConfig.rows / 2];
  if (warp < kConsumerWarps) {
    few_rows_multiply<kConfig>(shared, warp / 4, part, sums);
  } else if (threadIdx.x % 32 == 0) {
    few_rows_load<kConfig>(params, shared, part);
  }
  __syncwarp();
  __syncthreads();  // no stage is read any longer
  if (warp < kConsumerWarps) few_rows_keep<kConfig>(shared, sums);
  if constexpr (kConfig.splits > 1) {
    cluster_sync_shared();
  } else {
    __syncthreads();
  }
  few_rows_send<kConfig>(params, shared, part, calls);
  __syncwarp();
  // Until then others read this block's sums, or say in its memory that they have read a stage.
  if constexpr (kHasCluster) cluster_sync();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
