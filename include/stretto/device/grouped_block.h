// What the warps of a block of the grouped kernel have in common, and how each finds its tiles.
#pragma once

#include "stretto/device/grouped_task.h"
#include "stretto/device/ptx_barrier.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Shared-memory addresses of one block.
template <GroupedConfig kConfig>
struct GroupedShared {
  static constexpr GroupedLayout kLayout = layout_of(kConfig);
  static constexpr uint32 kIsLast = 0x100;
  uint32 a, b, chunks, full, empty, chunk_full, chunk_empty;
  uint32 rows, first_row, first_tile;  // by expert; of tiles one more
  uint32 ahead_tiles;                  // how many the kernel ahead has, of those that are awaited
  uint32 notes, noted;                 // of tiles
  uint32 idle, received, exchanged;    // of ranges: stages of all, sums of others, and both used
  uint32 offsets;                      // of rows that are gathered

  STRETTO_DEVICE explicit GroupedShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    b = a + kConfig.stages * kLayout.a_bytes;
    chunks = b + kConfig.stages * kLayout.b_bytes;
    full = chunks + kLayout.chunk_rings * kChunkSlots * kLayout.slot_bytes;
    empty = full + kConfig.stages * 8;
    chunk_full = empty + kConfig.stages * 8;
    chunk_empty = chunk_full + kLayout.chunk_rings * kChunkSlots * 8;
    rows = chunk_empty + kLayout.chunk_rings * kChunkSlots * 8;
    first_row = rows + kMostExperts * 4;
    first_tile = first_row + kMostExperts * 4;
    ahead_tiles = first_tile + (kMostExperts + 1) * 4;
    notes = ahead_tiles + 12;  // a multiple of 16
    noted = notes + kTileNotes * 16;
    idle = noted + kTileNotes * 8;
    received = idle + 8;
    exchanged = received + 8;
    offsets = exchanged + 16;  // a multiple of 16
  }
  STRETTO_DEVICE static uint32 chunk_index(uint32 chunk_ring, uint32 slot) {
    return chunk_ring * kChunkSlots + slot;
  }
  // The first of those in a slot.
  STRETTO_DEVICE uint32 chunk(uint32 chunk_ring, uint32 slot) const {
    return chunks + chunk_index(chunk_ring, slot) * kLayout.slot_bytes;
  }

  // What the other warps know of the block's tile number i. The load warp writes it ahead of the
  // tile's first stage, with which it becomes visible.
  STRETTO_DEVICE uint32 note(uint32 i) const { return notes + i % kTileNotes * 16; }
  STRETTO_DEVICE void write_note(uint32 i, const GroupedTile& tile, bool is_last) const {
    store_shared_word(note(i), tile.units | (is_last ? kIsLast : 0) | tile.expert << 16);
    store_shared_word(note(i) + 4, tile.row);
    store_shared_word(note(i) + 8, tile.rows);
    store_shared_word(note(i) + 12, static_cast<uint32>(tile.column));
  }
  STRETTO_DEVICE uint32 units_of(uint32 i) const { return load_shared_word(note(i)) % kIsLast; }
  STRETTO_DEVICE bool is_last(uint32 i) const { return (load_shared_word(note(i)) & kIsLast) != 0; }
  STRETTO_DEVICE uint32 expert_of(uint32 i) const { return load_shared_word(note(i)) >> 16; }
  STRETTO_DEVICE uint32 row_of(uint32 i) const { return load_shared_word(note(i) + 4); }
  STRETTO_DEVICE uint32 tile_rows_of(uint32 i) const { return load_shared_word(note(i) + 8); }
  STRETTO_DEVICE int32 column_of(uint32 i) const {
    return static_cast<int32>(load_shared_word(note(i) + 12));
  }
  // Blocks that take tiles together are one, and which one this is.
  STRETTO_DEVICE static uint32 groups() { return gridDim.x / kConfig.ranges; }
  STRETTO_DEVICE static uint32 group() { return blockIdx.x / kConfig.ranges; }
  STRETTO_DEVICE static uint32 range() { return blockIdx.x % kConfig.ranges; }
  STRETTO_DEVICE static bool awaits_tiles(const GroupedParams& params) {
    return can_await_tiles(kConfig) && params.awaited != nullptr;
  }
  // Whether the block has any tile; ask before the first note.
  STRETTO_DEVICE bool has_tiles(const GroupedParams& params) const {
    return group() < num_tiles(params);
  }
  // The K blocks of the block's range.
  STRETTO_DEVICE static uint32 first_k(const GroupedParams& params) {
    return kConfig.ranges == 1 ? 0 : params.num_k * range() / kConfig.ranges;
  }
  STRETTO_DEVICE static uint32 end_k(const GroupedParams& params) {
    return kConfig.ranges == 1 ? params.num_k : params.num_k * (range() + 1) / kConfig.ranges;
  }
  // Whether stages can be loaded for the block's tile number i: none has sums in them.
  STRETTO_DEVICE void await_exchange(uint32 i) const {
    if (kConfig.ranges > 1 && i > 0) barrier_wait(exchanged, (i - 1) % 2);
  }
  // For those who need a note ahead of the tile's first stage.
  STRETTO_DEVICE void await_note(uint32 i) const {
    barrier_wait(noted + i % kTileNotes * 8, i / kTileNotes % 2);
  }

  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, 1 + 32 * kLayout.gather_warps);
      barrier_init(empty + i * 8, 4 * kLayout.consumers);
    }
    for (int32 i = 0; i < kLayout.chunk_rings * kChunkSlots; ++i) {
      barrier_init(chunk_full + i * 8, 4 * kLayout.consumers / kLayout.chunk_rings);
      barrier_init(chunk_empty + i * 8, 1);
    }
    for (int32 i = 0; i < kTileNotes; ++i) barrier_init(noted + i * 8, 1);
    barrier_init(idle, 4 * kLayout.consumers * kConfig.ranges);
    barrier_init(received, 1);
    barrier_init(exchanged, 4 * kLayout.consumers + 1);
    fence_barrier_init();
  }

  // All threads call it, ahead of a barrier of the block. What a partition cannot have is cut. Read
  // past L1: where the partition stands early, no wait of this kernel's is between.
  STRETTO_DEVICE void copy_counts(const GroupedParams& params) const {
    for (uint32 e = threadIdx.x; e < params.experts; e += kLayout.threads) {
      const auto* const at = reinterpret_cast<const uint32*>(params.rows_of_expert + e);
      const int32 count = rows_within(static_cast<int32>(load_relaxed_sys(at)),
                                      static_cast<int32>(params.most_rows));
      store_shared_word(rows + e * 4, static_cast<uint32>(count));
    }
  }
  STRETTO_DEVICE uint32 rows_of(uint32 expert) const { return load_shared_word(rows + expert * 4); }
  // By one warp, behind that barrier and ahead of another: where experts' rows and tiles begin.
  STRETTO_DEVICE void number_tiles(const GroupedParams& params) const {
    const uint32 lane = threadIdx.x % 32, most = params.most_rows;
    const uint32 each = (params.experts + 31) / 32;
    const uint32 begin = lane * each;
    const uint32 end = begin + each < params.experts ? begin + each : params.experts;
    const auto next_row = [&](uint32 row, uint32 e) {
      return next_first_row(row, rows_of(e), params.entry_rows, most);
    };
    uint32 own_rows = 0, own_tiles = 0;
    for (uint32 e = begin; e < end; ++e) own_rows = next_row(own_rows, e);
    uint32 row = sum_before(own_rows, most), own_ahead = 0;
    for (uint32 e = begin; e < end; ++e) {
      const uint32 next = next_row(row, e), count = rows_with_room(row, rows_of(e), most);
      store_shared_word(first_row + e * 4, row);
      store_shared_word(rows + e * 4, count);
      own_tiles += row_tiles<kConfig>(count, e >= params.low_from);
      if (awaits_tiles(params)) {
        own_ahead += row_tiles(count, e >= params.ahead_low_from, params.ahead_rows);
      }
      row = next;
    }
    if (awaits_tiles(params)) {
      const uint32 ahead = __reduce_add_sync(0xffffffffu, own_ahead);
      if (lane == 0) store_shared_word(ahead_tiles, ahead * params.ahead_times);
    }
    uint32 tile = sum_before(own_tiles, ~0u);
    for (uint32 e = begin; e < end; ++e) {
      store_shared_word(first_tile + e * 4, tile * params.column_blocks);
      tile += row_tiles<kConfig>(rows_of(e), e >= params.low_from);
    }
    if (lane == 31) store_shared_word(first_tile + params.experts * 4, tile * params.column_blocks);
  }
  // Over the lanes before this one; no sum is above `most`.
  STRETTO_DEVICE static uint32 sum_before(uint32 own, uint32 most) {
    const uint32 lane = threadIdx.x % 32;
    uint32 sum = own;
#pragma unroll
    for (uint32 step = 1; step < 32; step *= 2) {
      const uint32 before = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum = before < most - sum ? sum + before : most;
    }
    const uint32 before = __shfl_up_sync(0xffffffffu, sum, 1);
    return lane == 0 ? 0 : before;
  }

  // Behind that.
  STRETTO_DEVICE uint32 num_tiles(const GroupedParams& params) const {
    return load_shared_word(first_tile + params.experts * 4);
  }

  // By a whole warp: tile `number`, which is below num_tiles(), at `expert` or behind it.
  STRETTO_DEVICE GroupedTile find_tile(const GroupedParams& params, uint32 number,
                                       uint32& expert) const {
    uint32 passed;  // how many of the next experts' tiles all lie before this one, 32 at a time
    do {
      const uint32 e = expert + threadIdx.x % 32;
      const bool is_past =
          e < params.experts && load_shared_word(first_tile + (e + 1) * 4) <= number;
      passed = __popc(__ballot_sync(0xffffffffu, is_past));
      expert += passed;
    } while (passed == 32);
    GroupedTile tile = tile_of<kConfig>(expert, load_shared_word(first_row + expert * 4),
                                        rows_of(expert), expert >= params.low_from,
                                        number - load_shared_word(first_tile + expert * 4),
                                        params.column_blocks, params.band);
    tile.column = static_cast<int32>(tile.block * kLayout.stored_columns);
    return tile;
  }
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
