// How the blocks of a cluster add up a tile of which each has multiplied a range of K.
//
// Every block has sums of the whole tile, and adds up and stores some of its chunks of rows: it
// receives those of the others where its stages were, and sends them what it has of theirs. A lane
// exchanges with the same lanes of the other blocks alone.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/grouped_block.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// By a consumer, behind its last multiplication of the block's tile number i. Then the sums of the
// block's own chunks are whole: those of ranges are added in their order.
template <GroupedConfig kConfig, int32 kRows>
STRETTO_DEVICE void add_ranges(const GroupedShared<kConfig>& shared, uint32 i,
                               float (&sums)[layout_of(kConfig).mmas][kRows / 2]) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  constexpr uint32 kRanges = kConfig.ranges, kThreads = kLayout.consumers * kWarpgroup;
  constexpr uint32 kChunks = (kRows + kTokenChunkRows - 1) / kTokenChunkRows;
  constexpr uint32 kOwn = (kChunks + kRanges - 1) / kRanges;  // at most
  constexpr uint32 kVectors = kTokenChunkRows / 8;            // of four sums, in a chunk
  static_assert(received_bytes(kConfig) <= kConfig.stages * (kLayout.a_bytes + kLayout.b_bytes));
  const uint32 range = shared.range(), thread = threadIdx.x;
  // Of chunk `chunk` of its own, as it came from number `from` of the others.
  const auto offset_of = [&](uint32 from, uint32 chunk, int32 mma, uint32 vector) {
    const uint32 place = ((from * kOwn + chunk) * kLayout.mmas + mma) * kVectors + vector;
    return (place * kThreads + thread) * 16;
  };
  const auto is_there = [](uint32 chunk, uint32 vector) {
    return (chunk * kVectors + vector) * 8 < kRows;
  };

  // All blocks have read their stages.
  __syncwarp();
  if (thread % 32 < kRanges) barrier_arrive_at(shared.idle, thread % 32);
  barrier_wait(shared.idle, i % 2);
  if (thread == 0) {
    const uint32 first = first_chunk_of(kRows, range, kRanges) * kTokenChunkRows;
    const uint32 end = first_chunk_of(kRows, range + 1, kRanges) * kTokenChunkRows;
    const uint32 rows = (end < kRows ? end : kRows) - first;
    barrier_arrive_expect(shared.received, (kRanges - 1) * rows * kConfig.columns * 4);
  }
#pragma unroll
  for (uint32 chunk = 0; chunk < kChunks; ++chunk) {
    const uint32 owner = range_of_chunk(kRows, chunk, kRanges);
    if (owner == range) continue;
    const uint32 at = chunk - first_chunk_of(kRows, owner, kRanges);
    const uint32 from = range < owner ? range : range - 1;
    const uint32 to = shared_address_in(owner, shared.a);
    const uint32 received = shared_address_in(owner, shared.received);
#pragma unroll
    for (int32 m = 0; m < kLayout.mmas; ++m) {
#pragma unroll
      for (uint32 v = 0; v < kVectors; ++v) {
        if (!is_there(chunk, v)) continue;
        const float* const four = sums[m] + (chunk * kVectors + v) * 4;
        send_vector(to + offset_of(from, at, m, v), received, bits_of_float(four[0]),
                    bits_of_float(four[1]), bits_of_float(four[2]), bits_of_float(four[3]));
      }
    }
  }
  barrier_wait_for_sent(shared.received, i % 2);
#pragma unroll
  for (uint32 chunk = 0; chunk < kChunks; ++chunk) {
    const uint32 owner = range_of_chunk(kRows, chunk, kRanges);
    if (owner != range) continue;
    const uint32 at = chunk - first_chunk_of(kRows, owner, kRanges);
#pragma unroll
    for (int32 m = 0; m < kLayout.mmas; ++m) {
#pragma unroll
      for (uint32 v = 0; v < kVectors; ++v) {
        if (!is_there(chunk, v)) continue;
        Vec16 others[kRanges - 1];
#pragma unroll
        for (uint32 from = 0; from < kRanges - 1; ++from) {
          others[from] = load_shared_vector(shared.a + offset_of(from, at, m, v));
        }
#pragma unroll
        for (uint32 j = 0; j < 4; ++j) {
          float& own = sums[m][(chunk * kVectors + v) * 4 + j];
          float sum = 0;
#pragma unroll
          for (uint32 r = 0; r < kRanges; ++r) {
            float term = own;
            if (r < owner) term = float_of_bits(others[r < kRanges - 1 ? r : 0].word[j]);
            if (r > owner) term = float_of_bits(others[r - 1].word[j]);
            sum = r == 0 ? term : sum + term;
          }
          own = sum;
        }
      }
    }
  }
  // The next tile's stages come by TMA.
  fence_proxy_async_shared();
  __syncwarp();
  if (thread % 32 == 0) barrier_arrive(shared.exchanged);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
