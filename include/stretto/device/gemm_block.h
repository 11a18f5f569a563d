// What the warps of a block of the GEMM kernel have in common.
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_barrier.h"

namespace stretto::device {

// Whether a block's last tile is handed over at once, where its stages were: behind it nothing is
// loaded. Not where other warps do not know which tile that is, or who comes behind has the stages.
template <GemmConfig kConfig>
inline constexpr bool kLeavesFromStages =
    kConfig.overlap_store && !kConfig.splits && !kConfig.grouped && !kConfig.norms &&
    kConfig.output != OutputType::fp32;

// Shared-memory addresses of one block.
template <GemmConfig kConfig>
struct GemmShared {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  uint32 a, b, chunks, full, empty, chunk_full, chunk_empty;
  uint32 tasks_ready;   // one past the last task whose signals have come
  uint32 sums_ready;    // one past the last task whose sums to add have come
  uint32 blocks_ready;  // with phases: of K, of all tasks, those whose signals have come
  uint32 rows_ready;    // where it norms: tasks of rows whose signals have come
  uint32 tiles_stored;  // where it norms: 1 once all that the block's tiles store is there
  uint32 epoch;         // of the run
  uint32 notes;         // where grouped: of a task, whether its entry is empty
  uint32 squares;       // where it norms: of rows, by warps of each consumer
  uint32 last_full;     // of each consumer, where the last tile leaves from the stages
  uint32 offsets;       // where it gathers: of the task's rows, in 16 bytes from X's first

  STRETTO_DEVICE explicit GemmShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    b = a + kConfig.stages * kLayout.a_bytes;
    chunks = b + kConfig.stages * kLayout.b_bytes;
    full = chunks + kConfig.consumers * kLayout.chunk_slots * kLayout.chunk_bytes;
    empty = full + kConfig.stages * 8;
    chunk_full = empty + kConfig.stages * 8;
    chunk_empty = chunk_full + kConfig.consumers * kLayout.chunk_slots * 8;
    tasks_ready = chunk_empty + kConfig.consumers * kLayout.chunk_slots * 8;
    sums_ready = tasks_ready + 4;
    blocks_ready = tasks_ready + 8;
    rows_ready = tasks_ready + 12;
    epoch = tasks_ready + 16;
    tiles_stored = epoch + 8;
    notes = squares = last_full = epoch + 16;
    offsets = (notes + kTaskNotes * 4 + 15) & ~15u;
  }
  STRETTO_DEVICE uint32 chunk_index(uint32 consumer, uint32 slot) const {
    return consumer * kLayout.chunk_slots + slot;
  }
  STRETTO_DEVICE uint32 chunk(uint32 consumer, uint32 slot) const {
    return chunks + chunk_index(consumer, slot) * kLayout.chunk_bytes;
  }

  // A chunk of the last tile, where stages were.
  STRETTO_DEVICE uint32 last_chunk(uint32 consumer, int32 number) const {
    return a + (consumer * kLayout.chunks + static_cast<uint32>(number)) * kLayout.chunk_bytes;
  }

  // Whether there is nothing to multiply for a task. The load thread writes it ahead of the task's
  // first stage, with which it becomes visible.
  STRETTO_DEVICE uint32 note(uint32 task) const { return notes + task % kTaskNotes * 4; }
  STRETTO_DEVICE void write_note(uint32 task, bool is_empty) const {
    store_shared_word(note(task), is_empty ? 1 : 0);
  }
  STRETTO_DEVICE bool is_empty(uint32 task) const { return load_shared_word(note(task)) != 0; }

  // Of stage `slot`, when it holds what others sent instead of operands.
  STRETTO_DEVICE uint32 piece(uint32 slot, int32 place) const {
    return place < kLayout.pieces_in_a
               ? a + slot * kLayout.a_bytes + place * kLayout.piece_bytes
               : b + slot * kLayout.b_bytes + (place - kLayout.pieces_in_a) * kLayout.piece_bytes;
  }

  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, kConfig.gathers ? 33 : 1);
      barrier_init(empty + i * 8, kConfig.consumers * 4 * kLayout.cluster);
    }
    for (int32 i = 0; i < kConfig.consumers * kLayout.chunk_slots; ++i) {
      barrier_init(chunk_full + i * 8, 4);
      barrier_init(chunk_empty + i * 8, 1);
    }
    if constexpr (kLeavesFromStages<kConfig>) {
      for (int32 i = 0; i < kConfig.consumers; ++i) barrier_init(last_full + i * 8, 4);
    }
    store_release_shared(tasks_ready, 0);
    store_release_shared(sums_ready, 0);
    if constexpr (kConfig.phases) store_release_shared(blocks_ready, 0);
    if constexpr (kConfig.norms) {
      store_release_shared(rows_ready, 0);
      store_release_shared(tiles_stored, 0);
    }
    fence_barrier_init();
  }
};

// Whether a task may go on with the tile of the one before, of which it adds to some rows only.
template <GemmConfig kConfig>
inline constexpr bool kGoesOn = kConfig.adds > 0 && !kConfig.serves;

// How many of a task's rows its run has.
template <GemmConfig kConfig>
STRETTO_DEVICE int32 rows_present(const RunRows& run, const TaskRows& rows) {
  return run.present(rows.owner, rows.first, kConfig.tile_m);
}

// Whether task i awaits its late waits, for what it adds to its tile.
template <GemmConfig kConfig>
STRETTO_DEVICE bool adds_late(const GemmParams& params, const GemmTask& task, uint32 i) {
  bool adds = kConfig.adds > 0 && task.sum_step != 0;
  if constexpr (kConfig.splits) {
    adds = adds || params.splits[i * layout_of(kConfig).halves].ranges > 1;
  }
  return adds;
}

}  // namespace stretto::device
