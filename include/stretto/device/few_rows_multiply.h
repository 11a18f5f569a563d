// What a consumer of the kernel of few rows does: its sums of the stages.
#pragma once

#include "stretto/device/few_rows_load.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_wgmma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A consumer's stages: of two every second one of the block's, or all, of its half of the columns.
// Sums are zero where it has none. Where tiles follow `ring` is at the next one's first then.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_multiply(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                      const FewRowsPart& part, RingPosition& ring,
                                      float (&sums)[kConfig.rows / 2]) {
  constexpr FewRowsLayout kLayout = layout_of(kConfig);
  constexpr uint32 kTurns = kConfig.is_wide() ? 1 : kConfig.consumers;
  const uint32 turn = kConfig.is_wide() ? 0 : consumer;
  const uint32 half = kConfig.is_wide() ? consumer * (kConfig.columns / 2) * kTileK * 2 : 0;
  const uint64 a_base = wgmma_descriptor(shared.a + half), b_base = wgmma_descriptor(shared.b);
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
  if constexpr (kConfig.sends_beside()) {
    few_rows_release<kConfig>(shared, part, ring.slot);
    ring.template advance<kConfig.stages>();
  }
  // Keeps the compiler from reading sums ahead of the wait, which it does not see as their writer.
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
