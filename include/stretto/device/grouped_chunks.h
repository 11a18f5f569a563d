// How a consumer of the grouped kernel hands a finished tile to the warp that stores: it holds
// columns by rows, and the output is rows by columns, so chunks are transposed on their way.
//
// A chunk is 32 rows of 64 columns, 128 bytes a row, or of 32 columns and 64 bytes; swizzled as the
// store's map has it.
#pragma once

#include "stretto/device/grouped_block.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <GroupedConfig kConfig>
struct TokenChunks {
  static constexpr GroupedLayout kLayout = layout_of(kConfig);
  static constexpr int32 kMmas = kLayout.mmas;
  static constexpr int32 kWords = 2 / kLayout.halves;  // of eight rows, in a product of 64 columns
  // Those that the block's range has.
  static constexpr int32 kRowChunks =
      ((kConfig.rows + kTokenChunkRows - 1) / kTokenChunkRows + kConfig.ranges - 1) /
      kConfig.ranges;
  static constexpr int32 kGroups =
      kConfig.ranges == 1 ? kConfig.rows / 8 : kRowChunks * (kTokenChunkRows / 8);
  static constexpr int32 kCount = kGroups * kMmas * kWords;
  static constexpr int32 kMostChunks = kRowChunks * kLayout.chunks_across;
  static constexpr int32 kTogether = kConfig.together;
  static constexpr int32 kMostHandfuls = (kMostChunks + kTogether - 1) / kTogether;

  const GroupedShared<kConfig>& shared;
  uint32 consumer, warp, lane;  // warp within the consumer
  RingPosition ring{};

  // Where the two rounded elements are kept that a lane has of group `group` of eight rows.
  STRETTO_DEVICE static constexpr int32 word_of(int32 group, int32 mma, int32 word) {
    return (group * kMmas + mma) * kWords + word;
  }
  STRETTO_DEVICE uint32 slot() const {
    return shared.chunk_index(kLayout.chunk_rings == 1 ? 0 : consumer, ring.slot);
  }
  STRETTO_DEVICE bool has_room() const {
    return __all_sync(0xffffffffu, barrier_test(shared.chunk_empty + slot() * 8, ring.parity ^ 1));
  }

  // Sixteen bytes of a row are eight columns, which one warp has: 16-byte unit `unit` of rows
  // [8 `group`, ...) of the chunk comes from one register of its lanes.
  STRETTO_DEVICE static void store_transposed(uint32 chunk, uint32 row, uint32 unit, uint32 w0,
                                              uint32 w1, uint32 w2, uint32 w3) {
    constexpr uint32 kRowBytes = kLayout.chunk_columns * 2;
    const uint32 address =
        chunk + row * kRowBytes + ((unit ^ (row * kRowBytes / 128 % (kRowBytes / 16))) << 4);
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
        "r"(w0), "r"(w1), "r"(w2), "r"(w3)
        : "memory");
  }

  // How many times chunks are handed over of a tile that has so many rows of them.
  STRETTO_DEVICE static constexpr uint32 handfuls(uint32 row_chunks) {
    return (row_chunks * kLayout.chunks_across + kTogether - 1) / kTogether;
  }

  template <int32 kChunk>
  STRETTO_DEVICE void write_chunk(uint32 chunk, const uint32 (&packed)[kCount]) {
    constexpr int32 kFirst = kChunk / kLayout.chunks_across * (kTokenChunkRows / 8);
    constexpr int32 kAcross = kChunk % kLayout.chunks_across;
    const uint32 which = lane / 8;  // of the four matrices, the one whose rows this lane names
    // Of a chunk that ends behind the last group, what is left over repeats it.
    const auto word = [&](int32 group, int32 mma, int32 half) {
      const int32 at = kFirst + group < kGroups ? kFirst + group : kGroups - 1;
      return packed[word_of(at, mma, half)];
    };
    if constexpr (kLayout.chunk_rings == 1) {
      store_transposed(chunk, which * 8 + lane % 8, consumer * 4 + warp, word(0, 0, 0),
                       word(1, 0, 0), word(2, 0, 0), word(3, 0, 0));
    } else if constexpr (kLayout.chunk_columns == 32) {
      store_transposed(chunk, which * 8 + lane % 8, warp, word(0, 0, 0), word(1, 0, 0),
                       word(2, 0, 0), word(3, 0, 0));
    } else {
#pragma unroll
      for (int32 pair = 0; pair < 2; ++pair) {
        const uint32 row = (pair * 2 + which / 2) * 8 + lane % 8;
        if constexpr (kLayout.halves == 2) {
          store_transposed(chunk, row, which % 2 * 4 + warp, word(pair * 2, 0, 0),
                           word(pair * 2, 1, 0), word(pair * 2 + 1, 0, 0),
                           word(pair * 2 + 1, 1, 0));
        } else {
          store_transposed(chunk, row, warp * 2 + which % 2, word(pair * 2, kAcross, 0),
                           word(pair * 2, kAcross, 1), word(pair * 2 + 1, kAcross, 0),
                           word(pair * 2 + 1, kAcross, 1));
        }
      }
    }
  }
  // Those of one slot; whatever a lower tile does not have is written in vain.
  template <int32 kHandful, int32 kAt>
  STRETTO_DEVICE void write_chunks(uint32 chunks, const uint32 (&packed)[kCount]) {
    constexpr int32 kChunk = kHandful * kTogether + kAt;
    if constexpr (kAt < kTogether && kChunk < kMostChunks) {
      write_chunk<kChunk>(chunks + kAt * kLayout.chunk_bytes, packed);
      write_chunks<kHandful, kAt + 1>(chunks, packed);
    }
  }
  template <int32 kHandful>
  STRETTO_DEVICE void write(const uint32 (&packed)[kCount]) {
    barrier_wait(shared.chunk_empty + slot() * 8, ring.parity ^ 1);
    write_chunks<kHandful, 0>(shared.chunks + slot() * kLayout.slot_bytes, packed);
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.chunk_full + slot() * 8);
    ring.template advance<kChunkSlots>();
  }

  // All up to `count`.
  template <int32 kFirst>
  STRETTO_DEVICE void write_first(const uint32 (&packed)[kCount], uint32 count) {
    if constexpr (kFirst < kMostHandfuls) {
      if (kFirst < count) {
        write<kFirst>(packed);
        write_first<kFirst + 1>(packed, count);
      }
    }
  }
  // Handful `number`, kFirst or a later one.
  template <int32 kFirst>
  STRETTO_DEVICE void write_number(const uint32 (&packed)[kCount], uint32 number) {
    if constexpr (kFirst < kMostHandfuls) {
      if (number == kFirst) {
        write<kFirst>(packed);
      } else {
        write_number<kFirst + 1>(packed, number);
      }
    }
  }
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
