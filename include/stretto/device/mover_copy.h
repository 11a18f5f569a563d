// The warps of a mover that move bytes by TMA: loads into the ring for all tasks, stores out of it
// for copies.
#pragma once

#include "stretto/device/mover_block.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_tma.h"
#endif

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A piece into a stage, by one warp, whose lanes all arrive at `full`. Rows that do not follow on
// one another go by ordinary asynchronous copies when they are to be added: TMA is slow at short
// rows, but only what TMA brought may leave by TMA.
STRETTO_DEVICE void load_piece(const MoverTask& task, const MoverPiece& piece,
                               const MoverRegion& from, uint32 stage, uint32 full) {
  const uint32 lane = threadIdx.x % 32;
  const uint32 row_bytes = piece.columns * bytes_of(task.from);
  const uint64 first = piece.address_in(from, task.from);
  const bool solid = piece.rows == 1 || from.row_bytes == row_bytes;
  if (solid || is_copy(task)) {
    fence_proxy_async_shared();  // ordinary copies may have filled the stage before
    if (lane == 0) {
      barrier_arrive_expect(full, piece.rows * row_bytes);
    } else {
      barrier_arrive(full);
    }
    if (solid) {
      if (lane == 0) bulk_load(stage, first, piece.rows * row_bytes, full);
      return;
    }
#pragma unroll 1
    for (uint32 row = lane; row < piece.rows; row += 32) {
      bulk_load(stage + row * row_bytes, first + row * from.row_bytes, row_bytes, full);
    }
    return;
  }

  const uint32 across = row_bytes / 16;
  if (across % 32 == 0) {
    for (uint32 column = lane * 16; column < row_bytes; column += 32 * 16) {
#pragma unroll 8
      for (uint32 row = 0; row < piece.rows; ++row) {
        copy_async(stage + row * row_bytes + column, first + row * from.row_bytes + column);
      }
    }
  } else {
#pragma unroll 1
    for (uint32 at = lane; at < piece.rows * across; at += 32) {
      copy_async(stage + at * 16, first + at / across * from.row_bytes + at % across * 16);
    }
  }
  barrier_arrive_after_copies(full);
}

// The same of rows that lie tile by tile. Tiles are narrow: their rows go by ordinary copies.
STRETTO_DEVICE void load_tiles(const TaskWalk& walk, const MoverPiece& piece, uint32 stage,
                               uint32 full) {
  const MoverTask& task = walk.entry();
  const uint32 lane = threadIdx.x % 32, size = bytes_of(task.from);
  const uint32 row_bytes = piece.columns * size, end = piece.column + piece.columns;
  for (uint32 column = piece.column; column < end;) {
    const TileSpan span = tile_span(task, column, end);
    const MoverRegion from = walk.region(span.tile);
    const uint64 first = address_in(from, piece.row, span.first, task.from);
    const uint32 to = stage + (column - piece.column) * size, across = span.columns * size / 16;
#pragma unroll 4
    for (uint32 at = lane; at < piece.rows * across; at += 32) {
      const uint32 row = at / across, vector = at - row * across;
      copy_async(to + row * row_bytes + vector * 16, first + row * from.row_bytes + vector * 16);
    }
    column += span.columns;
  }
  barrier_arrive_after_copies(full);
}

// By kLoadWarps warps, which fill stages in turn. Only where some warps add does anybody pass over
// stages.
template <bool kAdds, bool kNorms = false>
STRETTO_DEVICE void load_tasks(const MoverBlock& block, uint32 warp) {
  const MoverShared& shared = block.shared;
  uint32 stage = 0, passed = 0;
  for (TaskWalk walk(block, false); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    await_count(shared.ready, passed + 1);
    if (task.drains) await_count(shared.completed, passed);
    if (task.num_waits != 0 || task.drains) fence_proxy_async();
    ++passed;

    const MoverPieces pieces(task);
    const uint32 stages = stages_of<kNorms>(walk);
    MoverPiece piece(task, pieces);
    for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
      for (uint32 s = 0; s < stages; ++s, ++stage) {
        if (stage % kLoadWarps != warp) continue;
        const uint32 slot = slot_of(stage);
        const MoverRegion from = walk.region(s + task.num_sources - stages);
        barrier_wait(shared.empty + slot * 8, parity_of(stage) ^ 1);
        if (kAdds && threadIdx.x % 32 == 0) {
          store_release_shared(shared.begun + warp * 4, stage / kLoadWarps + 1);
        }
        const uint32 to = shared.stages + slot * kStageBytes, full = shared.full + slot * 8;
        if (kNorms && s == 0 && stages != task.num_sources) {
          load_tiles(walk, piece, to, full);
        } else {
          load_piece(task, piece, from, to, full);
        }
      }
    }
  }
}

// By kStoreWarps warps, which send the stages of copies in turn, one group of stores a stage in
// every lane. A task's copies count as stored once they are complete: at once where it is short, as
// somebody waits for it to begin, else kTrailing stages later, or when there is nothing to send.
template <bool kAdds, bool kNorms = false>
STRETTO_DEVICE void store_tasks(const MoverBlock& block, uint32 warp) {
  constexpr uint32 kTrailing = 3, kShort = 4;
  constexpr int kReading = 1;  // groups whose shared memory may still be read
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32, stored = shared.stored + warp * 4;
  uint32 stage = 0, unread_slot = 0;
  bool unread = false;
  uint32 turn = 0, sent = 0;         // stages of copies; those by this warp
  uint32 told = 0, passed = 0;       // tasks
  uint32 batch = 0, batch_sent = 0;  // tasks to tell of next, once this many stages are complete
  const auto free_unread = [&] {
    __syncwarp();
    if (lane == 0 && unread) barrier_arrive_many(shared.empty + unread_slot * 8, kAddWarps);
    unread = false;
  };
  const auto tell = [&](uint32 tasks) {
    __syncwarp();
    if (lane == 0) store_release_shared(stored, tasks);
    told = tasks;
  };
  const auto finish = [&] {
    tma_store_wait<0>();
    free_unread();
    tell(passed);
    batch = passed;
    batch_sent = sent;
  };

  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    const MoverPieces pieces(task);
    if (!is_copy(task)) {
      stage += pieces.count * stages_of<kNorms>(walk);
      ++passed;
      finish();
      continue;
    }

    const uint32 size = bytes_of(task.from);
    MoverPiece piece(task, pieces);
    const uint32 sent_before = sent;
    for (uint32 p = 0; p < pieces.count; ++p, ++stage, piece.advance(task, pieces)) {
      if (turn++ % kStoreWarps == warp) {
        const uint32 slot = slot_of(stage), full = shared.full + slot * 8;
        const auto is_full = [&] {
          return (!kAdds || has_begun(shared, stage)) && barrier_test(full, parity_of(stage));
        };
        if (told != passed && !__any_sync(0xffffffffu, is_full())) finish();
        if (kAdds) await_begun(shared, stage);
        barrier_wait(full, parity_of(stage));
        if (p == 0 && lane == 0) mark(block.params.marks, block.begin + passed, Mark::begun);
        const uint32 from = shared.stages + slot * kStageBytes;
        const uint32 row_bytes = piece.columns * size;
#pragma unroll 1
        for (uint32 d = 0; d < task.num_destinations; ++d) {
          const MoverRegion to = walk.region(d);
          const uint64 first = piece.address_in(to, task.to);
#pragma unroll 1
          for (uint32 row = lane; row < piece.rows; row += 32) {
            bulk_store(first + row * to.row_bytes, from + row * row_bytes, row_bytes);
          }
        }
        tma_store_commit();
        tma_store_wait_read<kReading>();
        free_unread();
        unread_slot = slot;
        unread = true;
        ++sent;
        if (told != batch && sent - batch_sent >= kTrailing) {
          tma_store_wait<kTrailing>();
          tell(batch);
        }
      }
    }
    ++passed;
    if (sent - sent_before <= kShort) {
      finish();
    } else if (told == batch) {
      batch = passed;
      batch_sent = sent;
    }
  }
  finish();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
