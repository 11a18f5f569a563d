// The warp of the grouped kernel that stores finished chunks.
#pragma once

#include "stretto/device/grouped_block.h"
#include "stretto/device/ptx_elect.h"
#include "stretto/device/ptx_tma.h"
#include "stretto/device/scatter_rows.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// One thread: `rows` sorted rows of a chunk, in boxes of a power of two of them.
template <int32 kRowBytes>
STRETTO_DEVICE void store_sorted(const GroupedParams& params, uint32 chunk, uint32 row, uint32 rows,
                                 int32 column) {
  uint32 done = 0;
#pragma unroll 1
  while (done < rows) {
    const int32 level = 31 - __clz(static_cast<int32>(rows - done));
    tma_store(&params.outputs[kRowMaps - 1 - level], column, static_cast<int32>(row + done),
              chunk + done * kRowBytes);
    done += 1u << level;
  }
}

// Chunks in the order in which consumers hand them over: begin(first row of the tile) for those of
// the same rows, act(ring, chunk, first row, rows, column) for each, then end() for those in the
// same slot of the rings.
template <GroupedConfig kConfig, class Begin, class Act, class End>
STRETTO_DEVICE void each_chunk(const GroupedShared<kConfig>& shared, uint32 tile_rows,
                               int32 tile_column, RingPosition& ring, Begin begin, Act act,
                               End end) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  constexpr int32 kColumnsOfRing = kLayout.stored_columns / kLayout.chunk_rings;
  const uint32 range = shared.range();
  const uint32 begin_row = first_chunk_of(tile_rows, range, kConfig.ranges) * kTokenChunkRows;
  const uint32 own_end = first_chunk_of(tile_rows, range + 1, kConfig.ranges) * kTokenChunkRows;
  const uint32 end_row = own_end < tile_rows ? own_end : tile_rows;
  int32 in_slot = 0;
  for (uint32 first = begin_row; first < end_row; first += kTokenChunkRows) {
    begin(first);
    const uint32 left = end_row - first;
    const uint32 rows = left < kTokenChunkRows ? left : kTokenChunkRows;
#pragma unroll 1
    for (int32 across = 0; across < kLayout.chunks_across; ++across) {
      for (int32 r = 0; r < kLayout.chunk_rings; ++r) {
        if (in_slot == 0) {
          barrier_wait(shared.chunk_full + shared.chunk_index(r, ring.slot) * 8, ring.parity);
        }
        act(r, shared.chunk(r, ring.slot) + in_slot * kLayout.chunk_bytes, first, rows,
            tile_column + r * kColumnsOfRing + across * kLayout.chunk_columns);
      }
      const bool is_last = left <= kTokenChunkRows && across == kLayout.chunks_across - 1;
      if (++in_slot < kConfig.together && !is_last) continue;
      end();
      in_slot = 0;
      ring.advance<kChunkSlots>();
    }
  }
}

// One warp.
template <GroupedConfig kConfig>
STRETTO_DEVICE void grouped_store(const GroupedParams& params,
                                  const GroupedShared<kConfig>& shared) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  constexpr int32 kRowBytes = kLayout.chunk_columns * 2;
  const bool leads = is_elected();
  const uint32 range = shared.range();
  RingPosition ring;
  // The note of tile i: of ranges some have no chunk with which it would become visible.
  const auto await_tile = [&](uint32 i) {
    if constexpr (kConfig.ranges > 1) {
      shared.await_note(i);
    } else {
      barrier_wait(shared.chunk_full + shared.chunk_index(0, ring.slot) * 8, ring.parity);
    }
  };
  // Behind the last look at it.
  const auto leave_tile = [&] {
    __syncwarp();
    if (kConfig.ranges > 1 && leads) barrier_arrive(shared.exchanged);
  };
  const auto free_slot = [&](uint32 slot) {
    if (!leads) return;
    for (int32 r = 0; r < kLayout.chunk_rings; ++r) {
      barrier_arrive(shared.chunk_empty + shared.chunk_index(r, slot) * 8);
    }
  };
  bool more = shared.has_tiles(params);
  if constexpr (kConfig.scatters) {
    constexpr uint32 kNowhere = ~0u, kAtOnce = kConfig.gathers ? 2 : 4;
    const ScatteredRows to{params.output_address, params.output_row_bytes, params.output_rows,
                           params.output_columns * 2};
    for (uint32 i = 0; more; ++i) {
      await_tile(i);
      more = !shared.is_last(i);
      const uint32 row = shared.row_of(i), rows = shared.tile_rows_of(i);
      const int32 tile_column = shared.column_of(i);
      leave_tile();
      // Of the next 32 rows asked for ahead of these.
      const auto target_of = [&](uint32 first) {
        const uint32 at = first + threadIdx.x % 32;
        if (at >= rows) return kNowhere;
        // Past L1: where tiles are awaited no wait of this kernel's is between.
        return load_relaxed_sys(reinterpret_cast<const uint32*>(params.targets + row + at));
      };
      uint32 target = kNowhere;
      uint32 next = target_of(first_chunk_of(rows, range, kConfig.ranges) * kTokenChunkRows);
      each_chunk<kConfig>(
          shared, rows, tile_column, ring,
          [&](uint32 first) {
            target = next;
            next = target_of(first + kTokenChunkRows);
          },
          [&](int32, uint32 chunk, uint32, uint32, int32 column) {
            scatter_rows<kRowBytes, kAtOnce>(to, chunk, 0, target, static_cast<uint32>(column) * 2);
          },
          [&] { free_slot(ring.slot); });
    }
  } else {
    for (uint32 i = 0; more; ++i) {
      await_tile(i);
      more = !shared.is_last(i);
      const uint32 row = shared.row_of(i), tile_rows = shared.tile_rows_of(i);
      const uint32 word = stored_word(shared.expert_of(i), row);
      const int32 tile_column = shared.column_of(i);
      leave_tile();
      bool unread = false;  // the slot before this one
      const auto free_before = [&] {
        if (unread) free_slot((ring.slot + kChunkSlots - 1) % kChunkSlots);
      };
      each_chunk<kConfig>(
          shared, tile_rows, tile_column, ring, [](uint32) {},
          [&](int32, uint32 chunk, uint32 first, uint32 rows, int32 column) {
            if (leads) store_sorted<kRowBytes>(params, chunk, row + first, rows, column);
          },
          [&] {
            tma_store_commit();
            tma_store_wait_read<1>();
            free_before();
            unread = true;
          });
      // The consumers may wait for the last chunk's place while nothing more is stored.
      tma_store_wait_read<0>();
      free_before();
      if (params.stored != nullptr) {
        tma_store_wait<0>();  // all the way: whoever awaits the tile reads memory
        if (leads) add_two_release_gpu(params.stored + word, params.stored, 1);
      }
    }
    tma_store_wait<0>();
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
