// The warp of the GEMM kernel that stores where every row of a tile goes to that of its choice.
#pragma once

#include "stretto/device/gemm_entries.h"
#include "stretto/device/gemm_store.h"
#include "stretto/device/scatter_rows.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// One warp. Of a row that has no choice, or one that is none of the caller's rows, nothing is
// stored.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_scatter(const GemmParams& params, const GemmShared<kConfig>& shared,
                                 uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kChunksAcross = kLayout.stored_columns / kLayout.chunk_columns;
  constexpr int32 kConsumerRows = kConfig.tile_m / kConfig.consumers;
  constexpr int32 kRowBytes = kLayout.chunk_columns * 2;
  constexpr uint32 kNowhere = ~0u;
  const uint64 epoch = load_shared(shared.epoch);
  const GemmEntry* entries = entries_of_run(params, epoch);
  const uint32 lane = threadIdx.x % 32;
  RingPosition ring;
  const auto await_chunk = [&](int32 consumer) {
    barrier_wait(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8, ring.parity);
    return shared.chunk(consumer, ring.slot);
  };
  const auto free_chunk = [&](int32 consumer) {
    if (lane == 0) barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8);
  };
#pragma unroll 1
  for (uint32 i = begin; i < end; ++i) {
    // Behind an empty task's one chunk, which has no data, its note is visible.
    for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) await_chunk(consumer);
    if (shared.is_empty(i)) {
      __syncwarp();
      for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) free_chunk(consumer);
      ring.advance<kLayout.chunk_slots>();
    } else {
      const GemmEntry& entry = entries[i];
      const ScatteredRows to = entry.to;
      const uint64 choices = entry.choices;
      const uint32 rows = entry.rows;
      uint32 targets[kConfig.tile_m / 32];  // of each 32 rows, the lane's
#pragma unroll
      for (uint32 part = 0; part < kConfig.tile_m / 32; ++part) {
        const uint32 row = part * 32 + lane;
        targets[part] = row < rows ? static_cast<uint32>(table_entry(choices, row)) : kNowhere;
      }
#pragma unroll 1
      for (int32 chunk = 0; chunk < kLayout.chunks; ++chunk) {
        const int32 first = chunk / kChunksAcross * kChunkRows;
        const uint32 column_byte = chunk % kChunksAcross * kRowBytes;
#pragma unroll 1
        for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
          const uint32 from = await_chunk(consumer);
#pragma unroll 1
          for (int32 half = 0; half < kChunkRows; half += 32) {
            uint32 target = kNowhere;
#pragma unroll
            for (int32 part = 0; part < kConfig.tile_m / 32; ++part) {
              if (consumer * kConsumerRows + first + half == part * 32) target = targets[part];
            }
            scatter_rows<kRowBytes>(to, from, static_cast<uint32>(half), target, column_byte);
          }
          free_chunk(consumer);
        }
        ring.advance<kLayout.chunk_slots>();
      }
    }
    if (lane == 0) {
      gemm_notify(params, epoch, params.tasks[i]);
      mark(params.marks, i, Mark::done);
    }
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
