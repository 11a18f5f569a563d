// The consumers of the grouped kernel: warpgroups that multiply stages, and finish tiles.
//
// A consumer has a half or a third of a tile's columns, of all its rows. It keeps a finished tile
// rounded in registers and hands it over behind the multiplications of the next one, a chunk at a
// time.
#pragma once

#include "stretto/device/activations.h"
#include "stretto/device/gemm_follow.h"
#include "stretto/device/grouped_chunks.h"
#include "stretto/device/grouped_ranges.h"
#include "stretto/device/ptx_wgmma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <GroupedConfig kConfig>
STRETTO_DEVICE float grouped_followed(float x) {
  if constexpr (kConfig.follower == Follower::gelu) return gelu_of(x);
  if constexpr (kConfig.follower == Follower::silu || kConfig.follower == Follower::swiglu) {
    return silu_of(x);
  }
  return x;
}

// A consumer's state between tiles.
template <GroupedConfig kConfig>
class GroupedConsumer {
  static constexpr GroupedLayout kLayout = layout_of(kConfig);
  static constexpr int32 kMmas = kLayout.mmas;
  using Half = typename HalfOf<kConfig.bf16>::Type;
  using Chunks = TokenChunks<kConfig>;

 public:
  STRETTO_DEVICE GroupedConsumer(const GroupedParams& params, const GroupedShared<kConfig>& shared,
                                 uint32 consumer)
      : params_(params),
        shared_(shared),
        chunks_{shared, consumer, threadIdx.x / 32 % 4, threadIdx.x % 32},
        a_base_(wgmma_descriptor(shared.a + consumer * (kLayout.a_bytes / kLayout.consumers))),
        b_base_(wgmma_descriptor(shared.b)) {}

  STRETTO_DEVICE void run() {
    bool more = shared_.has_tiles(params_);
#pragma unroll 1
    for (uint32 i = 0; more; ++i) {
      barrier_wait(shared_.full + ring_.slot * 8, ring_.parity);
      more = !shared_.is_last(i);
      multiply<1>(shared_.units_of(i), i);
      if (!more) chunks_.template write_first<0>(packed_, end_);
    }
  }

 private:
  // Tile i by the code for its units, kFirst or more.
  template <int32 kFirst>
  STRETTO_DEVICE void multiply(uint32 units, uint32 i) {
    if constexpr (kFirst * kUnitRows < kConfig.rows) {
      if (units == kFirst) {
        multiply_tile<kFirst>(i);
      } else {
        multiply<kFirst + 1>(units, i);
      }
    } else {
      multiply_tile<kFirst>(i);
    }
  }

  template <int32 kUnits>
  STRETTO_DEVICE void multiply_tile(uint32 i) {
    constexpr int32 kRows = kUnits * kUnitRows;
    float sums[kMmas][kRows / 2];
    const uint32 num_k = shared_.end_k(params_) - shared_.first_k(params_);
    multiply_stage<kRows>(sums, true);
    if constexpr (kConfig.weighs) {
      // While there is something else to wait for.
      const uint32 row = threadIdx.x % 32 * 32;
      if (row < shared_.tile_rows_of(i)) {
        prefetch_line(params_.row_weights + shared_.row_of(i) + row);
      }
    }
    uint32 previous_slot = ring_.slot;
    ring_.template advance<kConfig.stages>();
#pragma unroll 1
    for (uint32 k = 1; k < num_k; ++k) {
      multiply_stage<kRows>(sums, false);
      // All of the tile before, at the latest in the last stages.
#pragma unroll 1
      while (handed_ < end_ && (end_ - handed_ >= num_k - k || chunks_.has_room())) {
        chunks_.template write_number<0>(packed_, handed_++);
      }
      wgmma_wait<1>();
      release(previous_slot);
      previous_slot = ring_.slot;
      ring_.template advance<kConfig.stages>();
    }
    wgmma_wait<0>();
    // Keeps the compiler from reading sums ahead of the wait, which it does not see as their
    // writer.
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
      for (int32 j = 0; j < kRows / 2; ++j) asm volatile("" : "+f"(sums[m][j])::"memory");
    }
    release(previous_slot);
    // The tile before has been handed over: its registers are free.
#pragma unroll
    for (int32 j = 0; j < Chunks::kCount; ++j) asm volatile("" : "=r"(packed_[j]));
    if constexpr (kConfig.ranges > 1) add_ranges<kConfig, kRows>(shared_, i, sums);
    finish_tile<kRows>(sums, i);
    const uint32 range = shared_.range();
    handed_ = 0;
    end_ = Chunks::handfuls(first_chunk_of(kRows, range + 1, kConfig.ranges) -
                            first_chunk_of(kRows, range, kConfig.ranges));
  }

  template <int32 kRows>
  STRETTO_DEVICE void multiply_stage(float (&sums)[kMmas][kRows / 2], bool first) {
    await_stage();
    const uint64 a = a_base_ + ring_.slot * (kLayout.a_bytes >> 4);
    const uint64 b = b_base_ + ring_.slot * (kLayout.b_bytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int32 k = 0; k < kTileK / 16; ++k) {
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
        Wgmma<kRows, kConfig.bf16>::run(sums[m],
                                        a + m * (64 * kTileK * 2 >> 4) + k * kDescriptorStepK,
                                        b + k * kDescriptorStepK, !first || k != 0);
      }
    }
    wgmma_commit();
  }

  // Rows that were gathered came by ordinary copies, which wgmma does not see without a fence. Of a
  // short K one serves as many stages as are there; of a long K few are.
  STRETTO_DEVICE void await_stage() {
    if constexpr (kConfig.gathers && kConfig.together > 1) {
      if (fenced_ == 0) {
        RingPosition ahead = ring_;
        barrier_wait(shared_.full + ahead.slot * 8, ahead.parity);
        bool is_there = true;
        while (is_there && ++fenced_ < kConfig.stages) {
          ahead.template advance<kConfig.stages>();
          is_there =
              __all_sync(0xffffffffu, barrier_test(shared_.full + ahead.slot * 8, ahead.parity));
        }
        fence_proxy_async_shared();
      }
      --fenced_;
    } else {
      barrier_wait(shared_.full + ring_.slot * 8, ring_.parity);
      if constexpr (kConfig.gathers) fence_proxy_async_shared();
    }
  }

  STRETTO_DEVICE void release(uint32 slot) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_.empty + slot * 8);
  }

  // What follows the products, and rounding. A lane has rows r and r + 1 of every eight, of columns
  // c and c + 8 of every 64.
  template <int32 kRows>
  STRETTO_DEVICE void finish_tile(const float (&sums)[kMmas][kRows / 2], uint32 i) {
    [[maybe_unused]] const float* row_weights = nullptr;
    [[maybe_unused]] uint32 rows = 0;
    [[maybe_unused]] const bool gate_last = params_.gate_last != 0;
    if constexpr (kConfig.weighs) {
      row_weights = params_.row_weights + shared_.row_of(i);
      rows = shared_.tile_rows_of(i);
    }
#pragma unroll
    for (int32 group = 0; group < kRows / 8; ++group) {
      const uint32 range = range_of_chunk(kRows, group / 4, kConfig.ranges);
      if (kConfig.ranges > 1 && range != shared_.range()) continue;
      const int32 own_group = group - first_chunk_of(kRows, range, kConfig.ranges) * 4;
      float scale[2] = {1, 1};
      if constexpr (kConfig.weighs) {
        const uint32 row = group * 8 + threadIdx.x % 4 * 2;
        if (row < rows) scale[0] = row_weights[row];
        if (row + 1 < rows) scale[1] = row_weights[row + 1];
      }
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
        for (int32 word = 0; word < Chunks::kWords; ++word) {
          float value[2];
#pragma unroll
          for (int32 j = 0; j < 2; ++j) {
            float first = sums[m][group * 4 + word * 2 + j], second = 1;
            if constexpr (kLayout.halves == 2) {
              second = sums[m][group * 4 + 2 + j];
              if (gate_last) {
                const float gate = second;
                second = first;
                first = gate;
              }
            }
            value[j] = grouped_followed<kConfig>(first) * second;
            if constexpr (kConfig.weighs) value[j] *= scale[j];
          }
          packed_[Chunks::word_of(own_group, m, word)] = Half::round_pair(value[0], value[1]);
        }
      }
    }
  }

  const GroupedParams& params_;
  const GroupedShared<kConfig>& shared_;
  Chunks chunks_;
  const uint64 a_base_, b_base_;
  RingPosition ring_{};
  uint32 fenced_ = 0;              // stages from ring_ on
  uint32 packed_[Chunks::kCount];  // the tile before
  uint32 handed_ = 0, end_ = 0;    // how often of its own chunks, and of how many times
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
