// The warps of the grouped kernel that load stages: one by TMA, and four more that gather rows.
#pragma once

#include "stretto/device/grouped_block.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_elect.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// One thread: weights of a stage, which also awaits rows of tokens where they are sorted.
template <GroupedConfig kConfig>
STRETTO_DEVICE void load_weights(const GroupedParams& params, const GroupedShared<kConfig>& shared,
                                 const GroupedTile& tile, int32 k, uint32 slot) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  const uint32 full = shared.full + slot * 8;
  const uint32 rows = tile.units * kUnitRows;
  const uint32 row_bytes = kConfig.gathers ? 0 : rows * kTileK * 2;
  barrier_arrive_expect(full, kLayout.a_bytes + row_bytes);
  const uint32 a = shared.a + slot * kLayout.a_bytes;
  const auto expert = static_cast<int32>(tile.expert);
  if constexpr (kLayout.halves == 2) {
    tma_load(a, &params.weights, k, 0, 0, tile.column / 8, expert, full);
  } else {
    tma_load(a, &params.weights, k, tile.column, expert, full);
  }
}

// And these, behind that.
template <GroupedConfig kConfig>
STRETTO_DEVICE void load_tokens(const GroupedParams& params, const GroupedShared<kConfig>& shared,
                                const GroupedTile& tile, int32 k, uint32 slot) {
  if constexpr (!kConfig.gathers) {
    const uint32 b = shared.b + slot * layout_of(kConfig).b_bytes;
    // In one box, since a thread takes longer to ask for several than they take to come.
    tma_load(b, &params.tokens[tile.units - 1], k, static_cast<int32>(tile.row),
             shared.full + slot * 8);
  }
}

// One thread: until the kernel ahead has stored the tile's rows of tokens, and they may be loaded
// by TMA. Whether it was seen to have stored all of its tiles, which the block's first tile does
// not ask for: that would be one look more ahead of all others.
template <GroupedConfig kConfig>
STRETTO_DEVICE bool await_tokens(const GroupedParams& params, const GroupedShared<kConfig>& shared,
                                 const GroupedTile& tile, bool is_first) {
  const bool are_all =
      !is_first && load_acquire_gpu(params.awaited) == load_shared_word(shared.ahead_tiles);
  if (!are_all) {
    const uint32 first_row = load_shared_word(shared.first_row + tile.expert * 4);
    const uint32 rows = shared.rows_of(tile.expert), units = units_of_rows(rows);
    const uint32 tiles = row_tiles(rows, tile.expert >= params.ahead_low_from, params.ahead_rows);
    const uint32 unit = (tile.row - first_row) / kUnitRows;
    const uint32 last = tile_of_unit(units, tiles, unit + tile.units - 1);
#pragma unroll 1
    for (uint32 at = tile_of_unit(units, tiles, unit); at <= last; ++at) {
      const uint32 row = first_row + first_unit_of(units, tiles, at) * kUnitRows;
      await_count(params.awaited + stored_word(tile.expert, row), params.ahead_times);
    }
  }
  fence_proxy_async();
  return are_all;
}

// One warp, one thread of which loads. It also finds the block's tiles, for all others. The first
// two are given, and then a block takes the next one that no other has: so tiles that lie side by
// side, and share weights, begin at about the same time, however far blocks have drifted apart. It
// asks for a tile two ahead, since the answer takes a while. Where the partition stands early it
// asks for the first stages' weights before the kernel ahead has ended.
template <GroupedConfig kConfig>
STRETTO_DEVICE void grouped_load(const GroupedParams& params,
                                 const GroupedShared<kConfig>& shared) {
  const bool leads = is_elected();
  constexpr bool kTickets = kConfig.ranges == 1;
  const uint32 count = shared.num_tiles(params), groups = shared.groups();
  const uint32 first_k = shared.first_k(params), end_k = shared.end_k(params);
  uint32 number = shared.group(), next = number + groups, expert = 0;
  RingPosition ring{0, 1};
  const auto note = [&](uint32 i, const GroupedTile& tile) {
    shared.write_note(i, tile, next >= count);
    if constexpr (kConfig.gathers || kConfig.ranges > 1) {
      barrier_arrive(shared.noted + i % kTileNotes * 8);
    }
  };
  uint32 early_end = first_k;  // of the first tile's weights that are asked for already
  if (params.is_partition_early != 0) {
    if (number < count) {
      const GroupedTile tile = shared.find_tile(params, number, expert);
      early_end = first_k + kConfig.stages < end_k ? first_k + kConfig.stages : end_k;
      if (leads) {
        note(0, tile);
#pragma unroll 1
        for (uint32 k = first_k; k < early_end; ++k) {
          load_weights<kConfig>(params, shared, tile, static_cast<int32>(k) * kTileK, k - first_k);
        }
      }
    }
    __syncwarp();
    if (!shared.awaits_tiles(params)) wait_for_stream();
  }
  bool are_all_there = !shared.awaits_tiles(params);
  for (uint32 i = 0; number < count; ++i) {
    const GroupedTile tile = shared.find_tile(params, number, expert);
    uint32 ticket = 0;
    if (leads) {
      if (kTickets && next < count) ticket = add_relaxed_gpu(params.tickets, 1);
      const bool is_noted = i == 0 && early_end != first_k;
      // Who gathers looks rows up while the stages are still in use.
      if constexpr (kConfig.together > 1) {
        if (!is_noted) note(i, tile);
      }
#pragma unroll 1
      for (uint32 k = first_k; k < end_k; ++k) {
        barrier_wait(shared.empty + ring.slot * 8, ring.parity);
        if (k == first_k) {
          shared.await_exchange(i);
          if constexpr (kConfig.together == 1) {
            if (!is_noted) note(i, tile);
          }
        }
        const int32 first_column = static_cast<int32>(k) * kTileK;
        if (i > 0 || k >= early_end) {
          load_weights<kConfig>(params, shared, tile, first_column, ring.slot);
        }
        if (k == first_k && !are_all_there) {
          are_all_there = await_tokens(params, shared, tile, i == 0);
        }
        load_tokens<kConfig>(params, shared, tile, first_column, ring.slot);
        ring.advance<kConfig.stages>();
      }
    }
    number = next;
    // Whichever lane was elected: the others have 0.
    next = kTickets ? __reduce_max_sync(0xffffffffu, ticket) + 2 * groups : next + groups;
  }
  // It still adds to counts of its tiles, and ends first.
  const bool awaits_tiles = shared.awaits_tiles(params);
  if (awaits_tiles) wait_for_kernel_before();
  if constexpr (kTickets) {
    const bool is_last =
        leads && next_of_ring_acq_rel_gpu(params.tickets + 1, gridDim.x) == gridDim.x - 1;
    if (is_last) *params.tickets = 0;
    if (awaits_tiles && __any_sync(0xffffffffu, is_last)) {
      __syncwarp();  // behind what the thread that leads has seen
      const uint32 words = stored_words(params.experts, params.most_rows);
      for (uint32 i = threadIdx.x % 32; i < words; i += 32) params.awaited[i] = 0;
    }
  }
}

// Four warps, by number: two together copy 32 rows. TMA brings boxes of neighbouring rows, so rows
// that lie anywhere are copied in 16-byte pieces, to where TMA's swizzle would have put them: eight
// lanes a row.
template <GroupedConfig kConfig>
STRETTO_DEVICE void grouped_gather(const GroupedParams& params,
                                   const GroupedShared<kConfig>& shared, uint32 warp) {
  constexpr GroupedLayout kLayout = layout_of(kConfig);
  constexpr uint32 kAtOnce = 4;  // rows of a lane, 8 apart
  constexpr uint32 kPairs = kLayout.gather_warps / 2;
  constexpr uint32 kWords = (kConfig.rows + 31) / 32 * 16;  // of 32 rows at once
  const uint32 lane = threadIdx.x % 32, part = warp % 2, pair = warp / 2;
  const uint32 first_row = part * 4 + lane / 8;
  const uint32 piece = lane % 8 * 16;
  const uint32 place = first_row * 128 + (piece ^ (first_row * 16));
  // Where the rows are, in 16 bytes: of each lane those that it copies at once side by side.
  const uint32 offsets = shared.offsets + warp * kWords * 4;
  const uint32 blocks = shared.end_k(params) - shared.first_k(params);
  const uint32 first_column = shared.first_k(params) * (kTileK * 2) + piece;
  RingPosition ring{0, 1};
  bool more = shared.has_tiles(params);
  for (uint32 number = 0; more; ++number) {
    shared.await_note(number);
    more = !shared.is_last(number);
    const uint32 tile_row = shared.row_of(number), tile_rows = shared.tile_rows_of(number);
    const uint32 rows = shared.units_of(number) * kUnitRows;
#pragma unroll
    for (uint32 i = lane; i < kWords; i += 32) {
      const uint32 row = (i / 16 * kAtOnce + i % kAtOnce) * 8 + part * 4 + i / 4 % 4;
      // Rows past the tile's are multiplied in vain: the last of its own will do.
      const auto choice =
          static_cast<uint32>(params.sources[tile_row + (row < tile_rows ? row : tile_rows - 1)]);
      const uint32 source = choice / params.per;
      store_shared_word(offsets + i * 4,
                        (source < params.token_rows ? source : params.token_rows - 1) *
                            (params.token_row_bytes / 16));
    }
    __syncwarp();
    shared.await_exchange(number);
#pragma unroll 1
    for (uint32 k = 0; k < blocks; ++k) {
      const uint32 column = first_column + k * (kTileK * 2);
      const uint32 bytes = column < params.k_bytes ? 16 : 0;
      const uint64 from = params.tokens_address + column;
      const uint32 to = shared.b + ring.slot * kLayout.b_bytes + place;
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
#pragma unroll 2
      for (uint32 row = pair * (kAtOnce * 8); row < rows; row += kPairs * (kAtOnce * 8)) {
        const Vec16 offset = load_shared_vector(offsets + row * 2 + lane / 8 * 16);
        const auto source = [&](int32 j) {
          return from + static_cast<uint64>(offset.word[j]) * 16;
        };
        // Behind the last unit of the tallest tile there may be no room for another, even of zeros.
        if (kConfig.rows % 32 != 0 && row + kUnitRows >= kConfig.rows) {
          copy_two_async<1024>(to + row * 128, source(0), source(1), bytes);
        } else {
          copy_four_async<1024>(to + row * 128, source(0), source(1), source(2), source(3), bytes,
                                row + kUnitRows < rows ? bytes : 0);
        }
      }
      barrier_arrive_after_copies(shared.full + ring.slot * 8);
      ring.advance<kConfig.stages>();
    }
    __syncwarp();
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
