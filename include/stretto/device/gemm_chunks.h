// How a consumer of the GEMM kernel hands a finished tile to the warp that stores: in chunks of 64
// rows, swizzled in shared memory as the store's tensor map has it.
#pragma once

#include "stretto/device/gemm_block.h"

namespace stretto::device {

// Of all consumers; number 0 is the whole block's.
inline constexpr uint32 kConsumersBarrier = 1;

// A consumer's end of its ring of chunks.
template <GemmConfig kConfig>
struct ChunkWriter {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  static constexpr int32 kRowBytes = kLayout.chunk_bytes / 64;
  static constexpr int32 kGroups = kLayout.chunk_columns / 8;  // of 8 columns
  static constexpr int32 kChunksAcross = kLayout.stored_columns / kLayout.chunk_columns;

  const GemmShared<kConfig>& shared;
  uint32 consumer, warp, lane;  // warp within the consumer
  RingPosition ring{};

  // Of 16-byte unit `unit` in `row`, as the store's tensor map swizzles it.
  STRETTO_DEVICE uint32 offset(uint32 row, uint32 unit) const {
    return row * kRowBytes + ((unit ^ ((row * kRowBytes >> 7) & (kRowBytes / 16 - 1))) << 4);
  }
  STRETTO_DEVICE bool has_room() const {
    return __all_sync(0xffffffffu,
                      barrier_test(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8,
                                   ring.parity ^ 1));
  }
  STRETTO_DEVICE uint32 begin() {
    barrier_wait(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8, ring.parity ^ 1);
    return shared.chunk(consumer, ring.slot);
  }
  STRETTO_DEVICE void end() {
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8);
    ring.template advance<kLayout.chunk_slots>();
  }

  // A tile's chunks without data, for a task that stores nothing: they end behind all that this
  // warp has written, so that the notifies do.
  STRETTO_DEVICE void pass(int32 chunks = kLayout.chunks) {
    __syncwarp();
#pragma unroll 1
    for (int32 chunk = 0; chunk < chunks; ++chunk) {
      begin();
      if (lane == 0)
        barrier_arrive(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8);
      ring.template advance<kLayout.chunk_slots>();
    }
  }

  // Chunk kChunk of a tile rounded to 16 bits: packed[2j] and packed[2j+1] are column group j's
  // rows r and r + 8.
  template <int32 kChunk, int32 kCount>
  STRETTO_DEVICE void write_packed(const uint32 (&packed)[kCount]) {
    write_packed_to<kChunk>(packed, begin());
    end();
  }
  template <int32 kChunk, int32 kCount>
  STRETTO_DEVICE void write_packed_to(const uint32 (&packed)[kCount], uint32 base) const {
    const uint32 row = warp * 16 + lane % 16;
    constexpr int32 kFirst =
        (kChunk / kChunksAcross * (kLayout.stored_columns / 8) + kChunk % kChunksAcross * kGroups) *
        2;
#pragma unroll
    for (int32 j = 0; j < kGroups; j += 2) {
      const uint32 address = base + offset(row, j + lane / 16);
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
          "r"(packed[kFirst + 2 * j]), "r"(packed[kFirst + 2 * j + 1]),
          "r"(packed[kFirst + 2 * j + 2]), "r"(packed[kFirst + 2 * j + 3])
          : "memory");
    }
  }

  // All of the block's last tile, where its stages were.
  template <int32 kCount>
  STRETTO_DEVICE void write_last(const uint32 (&packed)[kCount]) const {
    // The other consumer may still multiply from them.
    if constexpr (kConfig.consumers > 1) {
      group_barrier(kConsumersBarrier, kConfig.consumers * kWarpgroup);
    }
    write_last_from<0>(packed);
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.last_full + consumer * 8);
  }

  template <int32 kChunk, int32 kMmas, int32 kCount>
  STRETTO_DEVICE void write_fp32(const float (&sums)[kMmas][kCount]) {
    const uint32 base = begin();
    const float* from = sums[kChunk / kChunksAcross] + kChunk % kChunksAcross * kGroups * 4;
#pragma unroll
    for (int32 j = 0; j < kGroups; ++j) {
#pragma unroll
      for (int32 half = 0; half < 2; ++half) {
        const uint32 row = warp * 16 + lane / 4 + half * 8;
        const uint32 address = base + offset(row, 2 * j + lane % 4 / 2) + lane % 2 * 8;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(from[4 * j + 2 * half]),
                     "f"(from[4 * j + 2 * half + 1])
                     : "memory");
      }
    }
    end();
  }

  template <int32 kFirst, int32 kCount>
  STRETTO_DEVICE void write_last_from(const uint32 (&packed)[kCount]) const {
    if constexpr (kFirst < kLayout.chunks) {
      write_packed_to<kFirst>(packed, shared.last_chunk(consumer, kFirst));
      write_last_from<kFirst + 1>(packed);
    }
  }
  template <int32 kFirst, int32 kCount>
  STRETTO_DEVICE void write_packed_from(const uint32 (&packed)[kCount]) {
    if constexpr (kFirst < kLayout.chunks) {
      write_packed<kFirst>(packed);
      write_packed_from<kFirst + 1>(packed);
    }
  }
  // The chunk of that number, kFirst or a later one.
  template <int32 kFirst, int32 kCount>
  STRETTO_DEVICE void write_packed_number(const uint32 (&packed)[kCount], int32 number) {
    if constexpr (kFirst < kLayout.chunks) {
      if (number == kFirst) {
        write_packed<kFirst>(packed);
      } else {
        write_packed_number<kFirst + 1>(packed, number);
      }
    }
  }
  template <int32 kFirst, int32 kMmas, int32 kCount>
  STRETTO_DEVICE void write_fp32_from(const float (&sums)[kMmas][kCount]) {
    if constexpr (kFirst < kLayout.chunks) {
      write_fp32<kFirst>(sums);
      write_fp32_from<kFirst + 1>(sums);
    }
  }
};

}  // namespace stretto::device
