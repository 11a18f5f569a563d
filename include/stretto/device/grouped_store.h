// The warp of the grouped kernel that stores finished chunks.
#pragma once

#include "stretto/device/grouped_block.h"
#include "stretto/device/ptx_tma.h"
#include "stretto/device/scatter_rows.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// One thread: `rows` sorted rows of a chunk, in boxes of a power of two of them.
STRETTO_DEVICE void store_sorted(const GroupedParams& params, uint32 chunk, uint32 row, uint32 rows,
                                 int32 column) {
  uint32 done = 0;
#pragma unroll 1
  while (done < rows) {
    const int32 level = 31 - __clz(static_cast<int32>(rows - done));
    tma_store(&params.outputs[kRowMaps - 1 - level], column, static_cast<int32>(row + done),
              chunk + done * 128);
    done += 1u << level;
  }
}

// Chunks in the order in which consumers hand them over: act(ring, first row of the tile, rows,
// column) for each, then end() for those in the same slot of the rings.
template <GroupedConfig kConfig, class Act, class End>
STRETTO_DEVICE void each_chunk(uint32 tile_rows, int32 tile_column, RingPosition& ring, Act act,
                               End end) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  constexpr int32 kColumnsOfRing = kLayout.stored_columns / kLayout.chunk_rings;
  for (uint32 first = 0; first < tile_rows; first += kTokenChunkRows) {
    const uint32 left = tile_rows - first;
    const uint32 rows = left < kTokenChunkRows ? left : kTokenChunkRows;
    for (int32 across = 0; across < kLayout.chunks_across; ++across) {
      for (int32 r = 0; r < kLayout.chunk_rings; ++r) {
        act(r, first, rows, tile_column + r * kColumnsOfRing + across * 64);
      }
      end();
      ring.advance<kTokenChunkSlots>();
    }
  }
}

// One warp.
template <GroupedConfig kConfig>
STRETTO_DEVICE void grouped_store(const GroupedParams& params,
                                  const GroupedShared<kConfig>& shared) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  const bool leads = threadIdx.x % 32 == 0;
  RingPosition ring;
  const auto await_chunk = [&](int32 r) {
    const uint32 index = shared.chunk_index(r, ring.slot);
    barrier_wait(shared.chunk_full + index * 8, ring.parity);
    return shared.chunk(r, ring.slot);
  };
  const auto free_chunk = [&](int32 r, uint32 slot) {
    if (leads) barrier_arrive(shared.chunk_empty + shared.chunk_index(r, slot) * 8);
  };
  bool more = shared.has_tiles(params);
  if constexpr (kConfig.scatters) {
    constexpr int32 kChunks = (kConfig.rows + kTokenChunkRows - 1) / kTokenChunkRows;
    constexpr uint32 kNowhere = ~0u;
    const ScatteredRows to{params.output_address, params.output_row_bytes, params.output_rows,
                           params.output_columns * 2};
    for (uint32 i = 0; more; ++i) {
      await_chunk(0);  // behind which the tile's note is visible
      more = !shared.is_last(i);
      const uint32 row = shared.row_of(i), rows = shared.tile_rows_of(i);
      uint32 targets[kChunks];
#pragma unroll
      for (int32 c = 0; c < kChunks; ++c) {
        const uint32 at = c * kTokenChunkRows + threadIdx.x % 32;
        targets[c] = at < rows ? static_cast<uint32>(params.targets[row + at]) : kNowhere;
      }
      each_chunk<kConfig>(
          rows, shared.column_of(i), ring,
          [&](int32 r, uint32 first, uint32, int32 column) {
            uint32 target = kNowhere;
#pragma unroll
            for (int32 c = 0; c < kChunks; ++c) {
              if (first == c * kTokenChunkRows) target = targets[c];
            }
            scatter_rows<128>(to, await_chunk(r), 0, target, static_cast<uint32>(column) * 2);
            free_chunk(r, ring.slot);
          },
          [] {});
    }
  } else {
    for (uint32 i = 0; more; ++i) {
      await_chunk(0);
      more = !shared.is_last(i);
      const uint32 row = shared.row_of(i);
      bool unread = false;  // the slot before this one
      const auto free_before = [&] {
        for (int32 r = 0; r < kLayout.chunk_rings; ++r) {
          if (unread) free_chunk(r, (ring.slot + kTokenChunkSlots - 1) % kTokenChunkSlots);
        }
      };
      each_chunk<kConfig>(
          shared.tile_rows_of(i), shared.column_of(i), ring,
          [&](int32 r, uint32 first, uint32 rows, int32 column) {
            const uint32 chunk = await_chunk(r);
            if (leads) store_sorted(params, chunk, row + first, rows, column);
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
    }
    tma_store_wait<0>();
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
