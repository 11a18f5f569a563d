// The warp of the GEMM kernel that stores finished chunks and notifies.
#pragma once

#include "stretto/device/gemm_block.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

// The rows of a chunk that a destination takes when it does not take all: in boxes of a power of
// two of them. Swizzling goes by shared-memory address, so a box may begin at any row that lies at
// a multiple of 128 bytes (GemmLayout::stores_rows()).
template <GemmConfig kConfig>
STRETTO_DEVICE void store_rows(const TensorMap* maps, const GemmDestination& to, int32 column,
                               int32 chunk_row, uint32 chunk) {
  constexpr int32 kRowBytes = layout_of(kConfig).chunk_bytes / kChunkRows;
  int32 row = chunk_row < to.begin ? to.begin : chunk_row;
  const int32 end = chunk_row + kChunkRows < to.end ? chunk_row + kChunkRows : to.end;
#pragma unroll 1
  while (row < end) {
    const int32 level = 31 - __clz(end - row);
    tma_store(maps + to.part_maps + (kPartMaps - 1 - level), to.column + column, to.row + row,
              chunk + static_cast<uint32>(row - chunk_row) * kRowBytes);
    row += 1 << level;
  }
}

// By the thread that stores, once all that it stored has arrived.
STRETTO_DEVICE void gemm_notify(const GemmParams& params, uint64 epoch, const GemmTask& task) {
  if (task.num_notifies == 0) return;
  tma_store_wait<0>();
  notify_signals(params.signals, epoch, params.notifies + task.first_notify, task.num_notifies);
}

// When chunks may leave for another GPU while tiles follow. What is on its way holds up the loads
// of the same SM when the link is slow: so it is one chunk at a time, the queue stays in the
// chunks, and they leave over the time in which the next tile is multiplied. Where that is no
// longer than the link takes, waiting would only make them late; and beyond what the link takes
// when all SMs send it gains nothing more. Not with phases, whose rows come from others and stay.
template <GemmConfig kConfig>
class ChunkPace {
 public:
  STRETTO_DEVICE explicit ChunkPace(uint32 num_k) {
    constexpr uint32 kProducts = 2048;  // of two 16-bit elements, by an SM in a cycle
    constexpr uint32 kOfBlock =
        kChunkRows * layout_of(kConfig).chunk_columns * kTileK / kProducts * 9 / 8;
    constexpr uint32 kLeast = 2560, kMost = 6000;  // what half, and all, of the SMs' chunks take
    const uint32 cycles = num_k * kOfBlock;
    if (cycles >= kLeast) between_ = cycles < kMost ? cycles : kMost;
  }

  STRETTO_DEVICE void wait() {
    if constexpr (!kConfig.phases) {
      while (cycles_now() - last_ < between_) {
      }
      last_ = cycles_now();
    }
  }

 private:
  uint32 between_ = 0;
  uint32 last_ = 0;  // the first chunk waits for nothing, unless the clock has just begun again
};

// One thread: a tile as consumers hand it over; `one_by_one` as ChunkPace tells.
template <GemmConfig kConfig, typename Store>
STRETTO_DEVICE void store_by_chunks(const GemmShared<kConfig>& shared, RingPosition& ring,
                                    bool one_by_one, uint32 num_k, Store store_chunk) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  ChunkPace<kConfig> pace(num_k);
  // Stores that may still be reading their chunks: of all but the one that is written next.
  constexpr int32 kUnread =
      (kLayout.chunk_slots < kLayout.chunks ? kLayout.chunk_slots : kLayout.chunks) - 1;
  uint32 oldest = ring.slot;
  const auto free_oldest = [&] {
    for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
      barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, oldest) * 8);
    }
    if (++oldest == kLayout.chunk_slots) oldest = 0;
  };
  for (int32 chunk = 0; chunk < kLayout.chunks; ++chunk) {
    for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
      barrier_wait(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8, ring.parity);
      if (one_by_one) pace.wait();
      store_chunk(consumer, chunk, shared.chunk(consumer, ring.slot));
      if (one_by_one) {
        tma_store_commit();
        tma_store_wait<0>();
        barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8);
      }
    }
    if (!one_by_one) {
      tma_store_commit();
      if (chunk >= kUnread) {
        tma_store_wait_read<kUnread>();
        free_oldest();
      }
    }
    ring.template advance<kLayout.chunk_slots>();
  }
  if (one_by_one) return;
  tma_store_wait_read<0>();
#pragma unroll
  for (int32 chunk = 0; chunk < kUnread; ++chunk) free_oldest();
}

// At the end of a block's list, tasks whose tiles have no rows in this run.
template <GemmConfig kConfig>
STRETTO_DEVICE uint32 tasks_without_rows(const GemmParams& params, const RunRows& run, uint32 begin,
                                         uint32 end) {
  uint32 count = 0;
  if constexpr (kConfig.serves) {
    while (count < end - begin &&
           rows_present<kConfig>(run, params.tasks[end - 1 - count].rows) == 0) {
      ++count;
    }
  }
  return count;
}

// One thread.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_store(const GemmParams& params, const GemmShared<kConfig>& shared,
                               uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kChunksAcross = kLayout.stored_columns / kLayout.chunk_columns;
  constexpr int32 kConsumerRows = kConfig.tile_m / kConfig.consumers;
  const uint64 epoch = load_shared(shared.epoch);
  const TensorMap* maps = params.maps + epoch % params.map_sets * params.num_maps;
  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  const auto free_chunks = [&](uint32 slot) {
    for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
      barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, slot) * 8);
    }
  };
  RingPosition ring;
  const uint32 last = end - 1 - tasks_without_rows<kConfig>(params, run, begin, end);
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask task = params.tasks[i];
    int32 present = kConfig.tile_m, shift = 0;
    if constexpr (kConfig.serves) {
      present = rows_present<kConfig>(run, task.rows);
      if ((task.rows.flags & kOutputIsCompact) != 0) shift = run.shift(task.rows.owner);
      if (present == 0) {
        // No data that the waits let through stand between them and the notifies.
        if (task.num_waits != 0) {
          while (load_acquire_shared(shared.tasks_ready) <= i) {
          }
        }
        if (adds_late<kConfig>(params, task, i)) {
          while (load_acquire_shared(shared.sums_ready) <= i) {
          }
        }
        gemm_notify(params, epoch, task);
        continue;
      }
    }
    if constexpr (kConfig.grouped) {
      // Behind an empty task's one chunk, which has no data, its note is visible.
      for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
        barrier_wait(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8, ring.parity);
      }
      if (shared.is_empty(i)) {
        free_chunks(ring.slot);
        ring.advance<kLayout.chunk_slots>();
        gemm_notify(params, epoch, task);
        mark(params.marks, i, Mark::done);
        continue;
      }
    }
    const auto store_chunk = [&](int32 consumer, int32 chunk, uint32 from) {
      const int32 column = chunk % kChunksAcross * kLayout.chunk_columns;
      const int32 chunk_row = consumer * kConsumerRows + chunk / kChunksAcross * kChunkRows;
      for (uint32 d = 0; d < task.num_destinations; ++d) {
        GemmDestination to = params.destinations[task.first_destination + d];
        if constexpr (kConfig.serves) {
          to.row += shift;
          if (present < to.end) to.end = static_cast<uint16>(present);
        }
        if (to.begin <= chunk_row && chunk_row + kChunkRows <= to.end) {
          tma_store(maps + to.map, to.column + column, to.row + chunk_row, from);
        } else {
          store_rows<kConfig>(maps, to, column, chunk_row, from);
        }
      }
    };
    if (kLeavesFromStages<kConfig> && i == last) {
      for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
        barrier_wait(shared.last_full + consumer * 8, 0);
        for (int32 chunk = 0; chunk < kLayout.chunks; ++chunk) {
          store_chunk(consumer, chunk, shared.last_chunk(consumer, chunk));
        }
      }
      tma_store_commit();
    } else {
      store_by_chunks<kConfig>(shared, ring, task.stores_far != 0 && i + 1 < end, task.num_k,
                               store_chunk);
    }
    gemm_notify(params, epoch, task);
    mark(params.marks, i, Mark::done);
  }
  tma_store_wait<0>();
  if constexpr (kConfig.norms) store_release_shared(shared.tiles_stored, 1);
}

}  // namespace stretto::device
