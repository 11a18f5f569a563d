// What a consumer of the GEMM kernel does to the sums of a tile before they are rounded.
//
// wgmma gives a lane two columns of every eight, of rows r and r + 8: so its share of a row of bias
// is a word of every group of eight columns, the same as of every fourth lane. Each lane holds an
// eighth of those, and gets the others from its like.
#pragma once

#include "stretto/device/activations.h"
#include "stretto/device/elements.h"
#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <bool kBf16>
struct HalfOf {
  using Type = Bf16;
};
template <>
struct HalfOf<false> {
  using Type = Fp16;
};

template <GemmConfig kConfig>
inline constexpr bool kFollows = kConfig.follower != Follower::none || kConfig.bias;

template <GemmConfig kConfig>
class TileFollower {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  static constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  static constexpr int32 kSums = kConfig.tile_n / 2;
  static constexpr int32 kGroups = kLayout.stored_columns / 8;  // of 8 columns
  static constexpr int32 kWords = (kGroups + 7) / 8;            // of bias in a lane

 public:
  STRETTO_DEVICE TileFollower(const GemmParams& params, uint32 task) {
    if constexpr (kConfig.bias) {
      const GemmFollow& follow = params.follows[task];
      columns_ = follow.bias_columns;
#pragma unroll
      for (int32 half = 0; half < kLayout.halves; ++half) {
        const uint64 bias = follow.bias[half];
        const uint32 columns = bias != 0 ? columns_ : 0;
#pragma unroll
        for (int32 i = 0; i < kWords; ++i) {
          const uint32 column = (static_cast<uint32>(i) * 32 + threadIdx.x % 32) * 2;
          words_[half][i] =
              column < columns ? *reinterpret_cast<const uint32*>(bias + column * 2) : 0;
        }
      }
    }
  }

  // Asks for the bias that the tile will need, while it has something else to wait for.
  STRETTO_DEVICE static void prefetch(const GemmParams& params, uint32 task) {
    constexpr uint32 kColumnsOfLine = 64;
    const GemmFollow& follow = params.follows[task];
    const uint32 column = threadIdx.x % 32 * kColumnsOfLine;
#pragma unroll
    for (int32 half = 0; half < kLayout.halves; ++half) {
      if (follow.bias[half] != 0 && column < follow.bias_columns) {
        prefetch_line(reinterpret_cast<const void*>(follow.bias[half] + column * 2));
      }
    }
  }

  // For a whole tile: what is stored takes the first of its sums. The whole warp calls it.
  STRETTO_DEVICE void follow_all(float (&sums)[kMmas][kSums]) const {
    if constexpr (kConfig.bias) {
#pragma unroll
      for (int32 half = 0; half < kLayout.halves; ++half) {
#pragma unroll
        for (int32 part = 0; part < kWords; ++part) {
          add_bias<(kGroups < 8 ? kGroups : 8)>(half, part * 8, [&](int32 m, int32 group) {
            return sums[m] + half * (kSums / 2) + group * 4;
          });
        }
      }
    }
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
      for (int32 i = 0; i < kGroups * 4; ++i) {
        sums[m][i] = followed(sums[m][i]);
        if constexpr (kLayout.halves == 2) sums[m][i] *= sums[m][kSums / 2 + i];
      }
    }
  }

  // Of kCount groups of columns from `first` on: sums_of(m, group) is the group's four sums. The
  // whole warp calls it.
  template <int32 kCount, class SumsOf>
  STRETTO_DEVICE void follow(int32 first, SumsOf sums_of) const {
    if constexpr (kConfig.bias) add_bias<kCount>(0, first, sums_of);
#pragma unroll
    for (int32 group = first; group < first + kCount; ++group) {
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
        for (int32 i = 0; i < 4; ++i) {
          float& sum = sums_of(m, group)[i];
          sum = followed(sum);
        }
      }
    }
  }

 private:
  // As a branch of its own: the compiler would ask for more of the bias at once than there are
  // registers for.
  template <int32 kCount, class SumsOf>
  STRETTO_DEVICE void add_bias(int32 half, int32 first, SumsOf sums_of) const {
    using Half = typename HalfOf<kConfig.bf16>::Type;
    if (static_cast<uint32>(first) * 8 >= columns_) return;
#pragma unroll
    for (int32 group = first; group < first + kCount && group < kGroups; ++group) {
      const uint32 word = __shfl_sync(0xffffffffu, words_[half][group / 8],
                                      group % 8 * 4 + static_cast<int>(threadIdx.x % 4));
      const float low = Half::low(word), high = Half::high(word);
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
        for (int32 i = 0; i < 4; ++i) sums_of(m, group)[i] += i % 2 == 0 ? low : high;
      }
    }
  }
  STRETTO_DEVICE static float followed(float x) {
    if constexpr (kConfig.follower == Follower::gelu) return gelu_of(x);
    if constexpr (kConfig.follower == Follower::silu || kConfig.follower == Follower::swiglu) {
      return silu_of(x);
    }
    return x;
  }

  uint32 columns_;  // of the bias
  uint32 words_[kLayout.halves][kWords];
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
