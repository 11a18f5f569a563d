// The kernel of few rows of Hopper (few_rows_task.h).
//
//   load warps   feed stages by TMA: one of weights, one of tokens, for a thread takes as long to
//   ask
//                for a box as SMs here take to read one
//   consumers    one or two warpgroups; multiply stages in turns, or each half of their columns,
//                with wgmma
//   all          add up what consumers and ranges of K have, round, and send vectors
//
// A block has one tile, or a range of its K. A stage of blocks that share is free for a piece that
// one of them loads when all have multiplied what was there.
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
  static constexpr uint32 kConsumerWarps = kConfig.consumers * kWarpgroup / 32;
  // A consumer's warps, or those of both where a stage is not one's own.
  static constexpr uint32 kReleases = kConfig.is_wide() ? kConsumerWarps : kWarpgroup / 32;
  uint32 a, b, full, a_empty, b_empty;

  STRETTO_DEVICE explicit FewRowsShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    asm volatile("" : "+r"(a));  // found once, not in every turn of a loop
    b = a + kConfig.stages * kLayout.a_bytes;
    full = a + (kLayout.shared_bytes - 1024 - kConfig.stages * 24);
    a_empty = full + kConfig.stages * 8;
    b_empty = a_empty + kConfig.stages * 8;
  }
  // A consumer's, once stages are no longer read.
  STRETTO_DEVICE uint32 sum(uint32 consumer, uint32 row, uint32 column) const {
    return a + consumer * kLayout.sum_bytes + row * kLayout.row_bytes + column * 4;
  }
  // Rounded.
  STRETTO_DEVICE uint32 element(uint32 consumer, uint32 row, uint32 column) const {
    return a + row * kLayout.row_bytes + (consumer * kFewRowsColumns + column) * 2;
  }
  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, 2);  // who loads
      barrier_init(a_empty + i * 8, kReleases * kConfig.row_blocks);
      barrier_init(b_empty + i * 8, kReleases * kConfig.column_blocks);
    }
    fence_barrier_init();
  }
};

// A block's part: where its tile begins, which blocks of K, and where it is in its cluster.
struct FewRowsPart {
  uint32 column, row;
  uint32 first_k, end_k;
  uint32 range;
  uint32 of_rows, of_columns;  // among those that share weights, and tokens
};
template <FewRowsConfig kConfig>
STRETTO_DEVICE FewRowsPart part_of_block(const FewRowsParams& params) {
  const uint32 cluster = blockIdx.x / kConfig.cluster(), in = blockIdx.x % kConfig.cluster();
  const uint32 range = in % kConfig.splits, of_rows = in / kConfig.splits % kConfig.row_blocks;
  const uint32 of_columns = in / kConfig.splits / kConfig.row_blocks;
  const uint32 columns = cluster / params.row_groups * kConfig.column_blocks + of_columns;
  const uint32 rows = cluster % params.row_groups * kConfig.row_blocks + of_rows;
  return {columns * kConfig.columns,
          rows * kConfig.rows,
          params.num_k * range / kConfig.splits,
          params.num_k * (range + 1) / kConfig.splits,
          range,
          of_rows,
          of_columns};
}

// An operand: its rows from `row` on, in a stage's part from `stages` on. Of `pieces` that blocks
// of the cluster load for each other this block has one, `piece`, for all in `block_mask`.
struct FewRowsOperand {
  const TensorMap* map;
  uint32 row, stages, empty;
  int32 stage_bytes, loaded_bytes;  // of all pieces
  uint32 piece;
  int32 pieces;
  uint16 block_mask;
};

// One operand's boxes, by a thread. It waits for what is ahead on the stream, as all threads do;
// `early` of its blocks it asks for before.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_load(const FewRowsShared<kConfig>& shared, const FewRowsPart& part,
                                  const FewRowsOperand& of, uint32 early) {
  const uint32 piece_bytes = of.loaded_bytes / of.pieces;
  const uint32 stages = of.stages + of.piece * piece_bytes;
  const auto row = static_cast<int32>(of.row + of.piece * (piece_bytes / (kTileK * 2)));
  const uint32 blocks = part.end_k - part.first_k;
  const uint32 before = early < blocks ? early : blocks;
  RingPosition ring{};
#pragma unroll 1
  for (uint32 i = 0; i < blocks; ++i) {
    if (i == before) wait_for_stream();
    const uint32 full = shared.full + ring.slot * 8;
    barrier_wait(of.empty + ring.slot * 8, ring.parity ^ 1);
    barrier_arrive_expect(full, of.loaded_bytes);
    const uint32 to = stages + ring.slot * of.stage_bytes;
    const auto k = static_cast<int32>((part.first_k + i) * kTileK);
    if constexpr (kConfig.shares()) {
      tma_load_multicast(to, of.map, k, row, full, of.block_mask);
    } else {
      tma_load(to, of.map, k, row, full);
    }
    ring.template advance<kConfig.stages>();
  }
  if (before == blocks) wait_for_stream();
}

// Lets those who load for this block fill a stage again: a warp says so to each, a lane to one.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_release(const FewRowsShared<kConfig>& shared, const FewRowsPart& part,
                                     uint32 slot) {
  const uint32 lane = threadIdx.x % 32;
  if constexpr (!kConfig.shares()) {
    if (lane < 2) barrier_arrive((lane == 0 ? shared.a_empty : shared.b_empty) + slot * 8);
  } else {
    constexpr uint32 kRowBlocks = kConfig.row_blocks, kColumnBlocks = kConfig.column_blocks;
    if (lane >= kRowBlocks + kColumnBlocks) return;
    const bool weights = lane < kRowBlocks;
    const uint32 to = weights ? part.of_columns * kRowBlocks + lane
                              : (lane - kRowBlocks) * kRowBlocks + part.of_rows;
    barrier_arrive_at((weights ? shared.a_empty : shared.b_empty) + slot * 8, to);
  }
}

// A consumer's stages: of two every second one of the block's, or all, of its half of the columns.
// Sums are zero where it has none.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_multiply(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                      const FewRowsPart& part, float (&sums)[kConfig.rows / 2]) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  constexpr uint32 kTurns = kConfig.is_wide() ? 1 : kConfig.consumers;
  const uint32 turn = kConfig.is_wide() ? 0 : consumer;
  const uint32 half = kConfig.is_wide() ? consumer * (kConfig.columns / 2) * kTileK * 2 : 0;
  const uint64 a_base = wgmma_descriptor(shared.a + half), b_base = wgmma_descriptor(shared.b);
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
  const auto advance = [&](uint32 steps) {
    for (uint32 i = 0; i < steps; ++i) ring.template advance<kConfig.stages>();
  };
  uint32 k = part.first_k + turn;
  if (k >= part.end_k) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    return;
  }
  advance(turn);
  multiply_stage(true);
#pragma unroll 1
  for (k += kTurns; k < part.end_k; k += kTurns) {
    const uint32 previous = ring.slot;
    advance(kTurns);
    multiply_stage(false);
    wgmma_wait<1>();
    few_rows_release<kConfig>(shared, part, previous);
  }
  wgmma_wait<0>();
  // Keeps the compiler from reading sums ahead of the wait, which it does not see as their writer.
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

// A lane has rows r and r + 1 of every eight, of columns c and c + 8.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_keep(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                  const float (&sums)[kConfig.rows / 2]) {
  const uint32 lane = threadIdx.x % 32;
  const uint32 column = threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
  for (int32 i = 0; i < kConfig.rows / 2; ++i) {
    const uint32 row = i / 4 * 8 + lane % 4 * 2 + i % 2;
    store_shared_word(shared.sum(consumer, row, column + i % 4 / 2 * 8), bits_of_float(sums[i]));
  }
}

// The same, rounded. What a warp holds of eight rows and eight columns is stored with a row's
// columns beside each other.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_keep_rounded(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                          bool canonical, const float (&sums)[kConfig.rows / 2]) {
  using Half = typename HalfOf<kConfig.bf16>::Type;
  const uint32 lane = threadIdx.x % 32, which = lane / 8;  // of four matrices: its rows, by lanes
  const uint32 column = threadIdx.x % kWarpgroup / 32 * 16 + which % 2 * 8;
  const uint32 to = shared.element(consumer, which / 2 * 8 + lane % 8, column);
#pragma unroll
  for (int32 i = 0; i < kConfig.rows / 2; i += 8) {
    uint32 words[4];
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      words[j] = Half::round_pair(sums[i + 2 * j], sums[i + 2 * j + 1]);
      if (canonical) words[j] = Half::canonical(words[j]);
    }
    store_matrices_transposed(to + i * 2 * FewRowsShared<kConfig>::kLayout.row_bytes, words);
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

// Eight columns of a row of the tile, rounded.
template <FewRowsConfig kConfig>
STRETTO_DEVICE Vec16 few_rows_rounded(const FewRowsShared<kConfig>& shared, uint32 row,
                                      uint32 column, bool canonical) {
  using Half = typename HalfOf<kConfig.bf16>::Type;
  constexpr uint32 kHalf = kConfig.is_wide() ? kConfig.columns / 2 : kConfig.columns;
  constexpr int32 kTurns = kConfig.is_wide() ? 1 : kConfig.consumers;
  const uint32 first = column / kHalf, in_half = column % kHalf;
  if constexpr (FewRowsShared<kConfig>::kLayout.is_rounded) {
    return load_shared_vector(shared.element(first, row, in_half));
  }
  float sums[8] = {};
#pragma unroll
  for (int32 from = 0; from < kConfig.splits; ++from) {
#pragma unroll
    for (int32 turn = 0; turn < kTurns; ++turn) {
      add_sums_of<kConfig.splits>(from, shared.sum(first + turn, row, in_half), sums);
    }
  }
  Vec16 value;
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    value.word[i] = Half::round_pair(sums[2 * i], sums[2 * i + 1]);
    if (canonical) value.word[i] = Half::canonical(value.word[i]);
  }
  return value;
}

// The blocks with ranges of K of a tile share out its vectors; a thread has kAtOnce under way.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_send(const FewRowsParams& params, const FewRowsShared<kConfig>& shared,
                                  const FewRowsPart& part) {
  constexpr uint32 kAcross = kConfig.columns / 8, kThreads = layout_of(kConfig).threads;
  constexpr uint32 kStep = kThreads * kConfig.splits, kAll = kConfig.rows * kAcross;
  constexpr uint32 kAtOnce = 4;
  const RowTargets& targets = params.targets;
  const bool to_slots = targets.state != nullptr;
  const uint64 buffer = to_slots ? *targets.state % 2 * targets.parity_bytes : 0;
  const auto column_of = [&](uint32 v) { return part.column + v % kAcross * 8; };
  const auto row_of = [&](uint32 v) { return part.row + v / kAcross; };
  const auto has = [&](uint32 v) {
    return v < kAll && row_of(v) < params.rows && column_of(v) < params.columns;
  };
#pragma unroll 1
  for (uint32 first = threadIdx.x + part.range * kThreads; first < kAll; first += kAtOnce * kStep) {
    Vec16 values[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 v = first + i * kStep;
      if (v < kAll)
        values[i] = few_rows_rounded<kConfig>(shared, v / kAcross, v % kAcross * 8, to_slots);
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
        const uint32 v = first + i * kStep, row = row_of(v);
        if (!has(v)) continue;
        const uint32 owner = row / targets.part_rows;
        send(i, owner, row - owner * targets.part_rows);
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
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  constexpr uint32 kConsumerWarps = FewRowsShared<kConfig>::kConsumerWarps;
  extern __shared__ uint8 shared_memory[];
  const FewRowsShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const FewRowsPart part = part_of_block<kConfig>(params);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&params.weights);
    prefetch_tensor_map(&params.tokens);
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
  } else if (warp == kConsumerWarps) {
    constexpr uint32 kMask = (1u << kConfig.row_blocks) - 1;
    const FewRowsOperand weights{
        &params.weights,
        part.column,
        shared.a,
        shared.a_empty,
        kLayout.a_bytes,
        kConfig.columns * kTileK * 2,
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
