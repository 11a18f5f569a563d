// The consumers of the GEMM kernel: warpgroups that multiply stages, and finish tiles.
#pragma once

#include "stretto/device/gemm_add.h"
#include "stretto/device/gemm_chunks.h"
#include "stretto/device/gemm_split.h"
#include "stretto/device/ptx_wgmma.h"

namespace stretto::device {

template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_multiply(const GemmParams& params, const GemmShared<kConfig>& shared,
                                  uint32 consumer, uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  constexpr int32 kSums = kConfig.tile_n / 2;
  constexpr int32 kStored = kLayout.stored_columns / 2;  // of the sums, once all is done to them
  constexpr bool kPacks = kConfig.output != OutputType::fp32;
  constexpr bool kOverlaps = kPacks && kConfig.overlap_store;
  constexpr uint32 kCluster = kLayout.cluster;
  const uint32 lane = threadIdx.x % 32;
  ChunkWriter<kConfig> writer{shared, consumer, threadIdx.x / 32 % 4, lane};
  RingPosition ring;
  float sums[kMmas][kSums];
  uint32 packed[kPacks ? kMmas * kStored / 2 : 1];

  // Both descriptors carry the address in their low word only.
  const uint64 a_base =
      wgmma_descriptor(shared.a + consumer * (kLayout.a_bytes / kConfig.consumers));
  const uint64 b_base = wgmma_descriptor(shared.b);
  uint32 previous_slot = 0;

  int32 handed = kLayout.chunks;  // of the tile before, to the store warp
  // The next stage. Whoever is awaited for its data may itself be waiting for the tile held here,
  // and the other consumer's chunks go together with this one's: so this one's go on meanwhile.
  const auto await_stage = [&] {
    const uint32 full = shared.full + ring.slot * 8;
    if constexpr (kOverlaps) {
      while (handed < kLayout.chunks && !__all_sync(0xffffffffu, barrier_test(full, ring.parity))) {
        if (writer.has_room()) writer.template write_packed_number<0>(packed, handed++);
      }
    }
    barrier_wait(full, ring.parity);
  };
  const auto multiply_stage = [&](bool first) {
    await_stage();
    const uint64 a = a_base + ring.slot * (kLayout.a_bytes >> 4);
    const uint64 b = b_base + ring.slot * (kLayout.b_bytes >> 4);
    // Rows that were gathered came by ordinary copies, which wgmma does not see without this.
    if constexpr (kConfig.gathers) fence_proxy_async_shared();
    wgmma_fence();
#pragma unroll
    for (int32 k = 0; k < kTileK / 16; ++k) {
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
        Wgmma<kConfig.tile_n, kConfig.bf16>::run(
            sums[m], a + m * (64 * kTileK * 2 >> 4) + k * kDescriptorStepK,
            b + k * kDescriptorStepK, !first || k != 0);
      }
    }
    wgmma_commit();
  };
  const auto release = [&](uint32 slot) {
    if constexpr (kCluster == 1) {
      if (lane == 0) barrier_arrive(shared.empty + slot * 8);
    } else {
      if (lane < kCluster) barrier_arrive_at(shared.empty + slot * 8, lane);
    }
  };

  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  // 0: the tile has no rows in this run.
  const auto num_k_of = [&](uint32 i) -> uint32 {
    if constexpr (kConfig.serves) {
      if (rows_present<kConfig>(run, params.tasks[i].rows) == 0) return 0;
    }
    return params.tasks[i].num_k;
  };
  const bool marks_here = threadIdx.x == 0;
  const auto multiply_tile = [&](uint32 i, uint32 num_k) {
    multiply_stage(true);
    if (marks_here) mark(params.marks, i, Mark::begun);
    if constexpr (kConfig.bias) TileFollower<kConfig>::prefetch(params, i);
    previous_slot = ring.slot;
    ring.advance<kConfig.stages>();
    for (uint32 k = 1; k < num_k; ++k) {
      multiply_stage(false);
      if constexpr (kOverlaps) {
        if (handed < kLayout.chunks && writer.has_room()) {
          writer.template write_packed_number<0>(packed, handed++);
        }
      }
      wgmma_wait<1>();
      release(previous_slot);
      previous_slot = ring.slot;
      ring.advance<kConfig.stages>();
    }
    if constexpr (kOverlaps) {
      while (handed < kLayout.chunks) writer.template write_packed_number<0>(packed, handed++);
    }
    wgmma_wait<0>();
    // Keeps the compiler from reading sums ahead of the wait, which it does not see as their
    // writer.
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
      for (int32 j = 0; j < kSums; ++j) asm volatile("" : "+f"(sums[m][j])::"memory");
    }
    release(previous_slot);
    if (marks_here) mark(params.marks, i, Mark::multiplied);
  };

  uint32 next_num_k = num_k_of(begin);
  for (uint32 i = begin; i < end; ++i) {
    const uint32 num_k = next_num_k;
    // 0: nothing follows, or what goes on with this task's tile.
    if constexpr (kGoesOn<kConfig>) {
      next_num_k = i + 1 < end ? num_k_of(i + 1) : 0;
    } else {
      if (i + 1 < end) next_num_k = num_k_of(i + 1);
    }
    if constexpr (kConfig.serves) {
      if (num_k == 0) continue;
    }
    if constexpr (kConfig.grouped) {
      await_stage();
      if (shared.is_empty(i)) {
        if constexpr (kOverlaps) {
          while (handed < kLayout.chunks) writer.template write_packed_number<0>(packed, handed++);
        }
        release(ring.slot);
        ring.advance<kConfig.stages>();
        writer.pass(1);
        continue;
      }
    }
    if (!kGoesOn<kConfig> || num_k != 0) {  // a tile of its own
      multiply_tile(i, num_k);
      if constexpr (kConfig.splits) {
        const GemmSplit split = params.splits[i * kLayout.halves];
        if (split.ranges != 0) {
          const RangeSums<kConfig, 0> ranges(split, consumer);
          const auto of_other_half = [&] {
            return RangeSums<kConfig, 1>(params.splits[i * kLayout.halves + 1], consumer);
          };
          if (split.ranges == 1) {
            ranges.keep(sums);
            if constexpr (kLayout.halves == 2) of_other_half().keep(sums);
            writer.pass();
            if constexpr (kPacks) {
              // The tile before has been handed over: its registers are free until here.
#pragma unroll
              for (int32 j = 0; j < kMmas * kStored / 2; ++j) asm volatile("" : "=r"(packed[j]));
            }
            continue;
          }
          while (load_acquire_shared(shared.sums_ready) <= i) {
          }
          ranges.add_to(split.ranges, sums);
          if constexpr (kLayout.halves == 2) of_other_half().add_to(split.ranges, sums);
          if (marks_here) mark(params.marks, i, Mark::finished);
        }
      }
      if constexpr (kFollows<kConfig> && kConfig.adds == 0) {
        TileFollower<kConfig>(params, i).follow_all(sums);
      }
      if constexpr (kPacks) {
#pragma unroll
        for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
          for (int32 j = 0; j < kStored / 2; ++j) {
            packed[m * (kStored / 2) + j] =
                OutputHalf<kConfig>::round_pair(sums[m][2 * j], sums[m][2 * j + 1]);
          }
        }
      }
    }
    if constexpr (kPacks) {
      if constexpr (kConfig.adds > 0) {
        const GemmTask& task = params.tasks[i];
        if (task.sum_step != 0) {
          TileAdder<kConfig>{shared, consumer, ring}.add_to(packed, task.sum_own,
                                                            TileFollower<kConfig>(params, i));
          if (marks_here) mark(params.marks, i, Mark::finished);
        }
      }
      if constexpr (kOverlaps) {
        handed = 0;
        if constexpr (kGoesOn<kConfig>) {
          // What a task that goes on with the tile awaits may itself be waiting for the rows that
          // this one stores: they are not held back.
          if (next_num_k == 0) {
            if (kLeavesFromStages<kConfig> && i + 1 == end) {
              writer.write_last(packed);
            } else {
              writer.template write_packed_from<0>(packed);
            }
            handed = kLayout.chunks;
          }
        }
      } else {
        writer.template write_packed_from<0>(packed);
      }
    } else {
      writer.template write_fp32_from<0>(sums);
    }
  }
  if constexpr (kOverlaps && !kGoesOn<kConfig>) {
    if (handed == 0) {
      if constexpr (kLeavesFromStages<kConfig>) {
        writer.write_last(packed);
      } else {
        writer.template write_packed_from<0>(packed);
      }
    }
  }
}

}  // namespace stretto::device
