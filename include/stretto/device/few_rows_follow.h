// What the kernel of few rows does to sums before they are rounded: a row of bias, an activation.
#pragma once

#include "stretto/device/activations.h"
#include "stretto/device/elements.h"
#include "stretto/device/few_rows_task.h"
#include "stretto/device/gemm_follow.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// To eight columns from `column` of the result on; of a gate's weights those of this `half`, of
// which only the first one's go through the activation.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_follow(const FewRowsParams& params, uint32 column, uint32 half,
                                    float (&sums)[8]) {
  using Half = typename HalfOf<kConfig.bf16>::Type;
  if constexpr (kConfig.bias) {
    const uint64 bias = params.bias[half];
    if (bias != 0 && column < params.columns) {
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
        const uint32 word = *reinterpret_cast<const uint32*>(bias + column * 2 + i * 4);
        sums[2 * i] += Half::low(word);
        sums[2 * i + 1] += Half::high(word);
      }
    }
  }
  if (half != 0) return;
#pragma unroll
  for (float& sum : sums) {
    if constexpr (kConfig.follower == Follower::gelu) sum = gelu_of(sum);
    if constexpr (kConfig.follower == Follower::silu || kConfig.is_gated()) sum = silu_of(sum);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
