// Tiles of a partition's entries in the GEMM kernel: whose matrix multiplies them, and rows of A
// that lie anywhere.
#pragma once

#include "stretto/device/gemm_block.h"

namespace stretto::device {

// What another kernel, or another block, has written: past what the compiler may know of it.
STRETTO_DEVICE int32 table_entry(uint64 address, uint32 at = 0) {
  return *reinterpret_cast<const volatile int32*>(address + uint64{at} * 4);
}

STRETTO_DEVICE const GemmEntry* entries_of_run(const GemmParams& params, uint64 epoch) {
  return params.entries + epoch % params.map_sets * params.num_entries;
}

// Of the entry, the first row of its matrix in the stack; -1: the entry is empty.
STRETTO_DEVICE int32 row_of_matrix(const GemmEntry& entry, int32 expert) {
  const auto number = static_cast<uint32>(expert);
  return number < entry.experts ? static_cast<int32>(number * entry.each) : -1;
}

// The entries of a block's tasks, one after the other. A look at a table takes most of a
// microsecond, so that of the next task is taken ahead where nothing has to be awaited for it.
template <GemmConfig kConfig>
class EntryWalk {
 public:
  STRETTO_DEVICE EntryWalk(const GemmParams& params, uint64 epoch, uint32 begin) {
    if constexpr (kConfig.grouped) {
      entries_ = entries_of_run(params, epoch);
      next_ = entries_[begin];
    }
  }

  // Of task i, whose signals have come, as row_of_matrix(). `may_look`: those of the next one, of
  // which there may be none, have then come too.
  STRETTO_DEVICE int32 first_row(uint32 i, bool may_look, bool has_next) {
    const GemmEntry entry = next_;
    const int32 expert = is_known_ ? expert_ : table_entry(entry.expert);
    if (has_next) next_ = entries_[i + 1];
    if (may_look) expert_ = table_entry(next_.expert);
    is_known_ = may_look;
    return row_of_matrix(entry, expert);
  }

 private:
  const GemmEntry* entries_ = nullptr;
  GemmEntry next_{};
  int32 expert_ = -1;
  bool is_known_ = false;
};

// One warp. TMA brings boxes of neighbouring rows, so rows that lie anywhere are copied in 16-byte
// pieces to where TMA's swizzle would have put them: eight lanes a row. Rows without a choice are
// not copied: nobody uses what they are multiplied to.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_gather(const GemmParams& params, const GemmShared<kConfig>& shared,
                                uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr uint32 kRows = kConfig.tile_m, kOfLane = kRows / 32;
  const GemmEntry* entries = entries_of_run(params, load_shared(shared.epoch));
  const uint32 lane = threadIdx.x % 32;
  const uint32 piece = lane % 8 * 16;
  RingPosition ring{0, 1};
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask& task = params.tasks[i];
    const GemmEntry entry = entries[i];
    const uint32 first_k = task.first_k, num_k = task.num_k;
    if (task.num_waits != 0) {
      while (load_acquire_shared(shared.tasks_ready) <= i) {
      }
    }
    if (row_of_matrix(entry, table_entry(entry.expert)) < 0) {
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
      barrier_arrive(shared.full + ring.slot * 8);
      ring.advance<kConfig.stages>();
      continue;
    }
    // Of rows lane, lane + 32, ... of the tile; kNone: there is none to copy.
    constexpr uint32 kNone = ~0u;
    uint32 source[kOfLane];
    uint32 rows = 0;  // behind the last one that is copied
#pragma unroll
    for (uint32 j = 0; j < kOfLane; ++j) {
      const uint32 row = j * 32 + lane;
      const int32 choice = row < entry.rows ? table_entry(entry.choices, row) : -1;
      const uint32 from = choice < 0 ? kNone : static_cast<uint32>(choice) / entry.per;
      source[j] = from < entry.x_rows ? from : kNone;
      const uint32 some = __ballot_sync(0xffffffffu, source[j] != kNone);
      if (some != 0) rows = j * 32 + 32 - __clz(static_cast<int>(some));
    }
    const uint64 x = entry.x + piece;
#pragma unroll 1
    for (uint32 k = 0; k < num_k; ++k) {
      const uint32 column = (first_k + k) * (kTileK * 2);
      const uint32 bytes = column + piece < entry.k_bytes ? 16 : 0;
      const uint64 from = x + (bytes != 0 ? column : 0);
      const uint32 to = shared.a + ring.slot * kLayout.a_bytes;
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
#pragma unroll
      for (uint32 j = 0; j < kOfLane; ++j) {
        if (j * 32 >= rows) continue;
#pragma unroll
        for (uint32 part = 0; part < 8; ++part) {
          const uint32 row = part * 4 + lane / 8;
          const uint32 row_of_x = __shfl_sync(0xffffffffu, source[j], static_cast<int>(row));
          if (row_of_x != kNone) {
            copy_async_or_zero(to + (j * 32 + row) * 128 + (piece ^ (row % 8 * 16)),
                               from + row_of_x * entry.x_row_bytes, bytes);
          }
        }
      }
      barrier_arrive_after_copies(shared.full + ring.slot * 8);
      ring.advance<kConfig.stages>();
    }
  }
}

}  // namespace stretto::device
