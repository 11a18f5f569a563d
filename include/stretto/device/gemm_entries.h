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
// pieces to where TMA's swizzle would have put them: eight lanes a row, and of each lane four rows
// at once, 8 apart. Nobody uses what rows without a choice are multiplied to: they have X's first.
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
    const GemmEntry& entry = entries[i];
    const uint32 num_k = task.num_k;
    const uint32 entry_rows = entry.rows, x_rows = entry.x_rows, per = entry.per;
    const uint64 choices = entry.choices;
    if (task.num_waits != 0) {
      while (load_acquire_shared(shared.tasks_ready) <= i) {
      }
    }
    // All looks at tables at once.
    int32 choice[kOfLane];
    const int32 expert = table_entry(entry.expert);
#pragma unroll
    for (uint32 j = 0; j < kOfLane; ++j) {
      const uint32 row = j * 32 + lane;
      choice[j] = row < entry_rows ? table_entry(choices, row) : -1;
    }
    if (row_of_matrix(entry, expert) < 0) {
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
      barrier_arrive(shared.full + ring.slot * 8);
      ring.advance<kConfig.stages>();
      continue;
    }
    const auto row_vectors = static_cast<uint32>(entry.x_row_bytes / 16);
    uint32 rows = 0;  // behind the last one that has a choice
    __syncwarp();     // all have read the task before's offsets
#pragma unroll
    for (uint32 j = 0; j < kOfLane; ++j) {
      const uint32 from = choice[j] < 0 ? x_rows : static_cast<uint32>(choice[j]) / per;
      const bool is_there = from < x_rows;
      const uint32 some = __ballot_sync(0xffffffffu, is_there);
      if (some != 0) rows = j * 32 + 32 - __clz(static_cast<int>(some));
      // Row 8 a + 4 part + b of the 32 stands at 16 part + 4 b + a.
      const uint32 place = j * 32 + lane / 4 % 2 * 16 + lane % 4 * 4 + lane / 8;
      store_shared_word(shared.offsets + place * 4, is_there ? from * row_vectors : 0);
    }
    __syncwarp();
    const uint32 k_bytes = entry.k_bytes;
    const uint32 mine = shared.offsets + lane / 8 * 16;
    uint64 from = entry.x + static_cast<uint64>(task.first_k) * (kTileK * 2) + piece;
    uint32 column = task.first_k * (kTileK * 2) + piece;
#pragma unroll 1
    for (uint32 k = 0; k < num_k; ++k) {
      const bool is_inside = column < k_bytes;
      const uint32 bytes = is_inside ? 16 : 0;
      const uint64 at = is_inside ? from : entry.x;
      const uint32 to = shared.a + ring.slot * kLayout.a_bytes + lane / 8 * 128;
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
#pragma unroll 1
      for (uint32 row = 0; row < rows; row += 32) {
#pragma unroll
        for (uint32 part = 0; part < 2; ++part) {
          const Vec16 offset = load_shared_vector(mine + row * 4 + part * 64);
          const auto source = [&](int32 j) { return at + uint64{offset.word[j]} * 16; };
          const uint32 place = part * 512 + (piece ^ ((part * 4 + lane / 8) * 16));
          copy_four_async<1024>(to + row * 128 + place, source(0), source(1), source(2), source(3),
                                bytes, bytes);
        }
      }
      barrier_arrive_after_copies(shared.full + ring.slot * 8);
      ring.advance<kConfig.stages>();
      from += kTileK * 2;
      column += kTileK * 2;
    }
  }
}

}  // namespace stretto::device
