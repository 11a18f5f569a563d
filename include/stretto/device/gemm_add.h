// Adding what other ranks sent, and then a residual, to a tile that a consumer of the GEMM kernel
// has just finished.
//
// The tile is rounded to the 16 bits in which partial sums travel, then all sums are added in fp32
// in rank order and rounded once more, behind what follows their sum: the same numbers as of a
// reduce task, and of one that does both at once. The load warp brings
// the others' sums in stages of the ring behind the tile's last operands (load_sums), so they are
// on their way while the tile is still being multiplied; ldmatrix gives every lane the elements
// whose sums it holds.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/gemm_block.h"
#include "stretto/device/gemm_follow.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <GemmConfig kConfig>
using OutputHalf = typename HalfOf<kConfig.output == OutputType::bf16>::Type;

template <class Half>
STRETTO_DEVICE void add_pair(uint32 packed, float (&sums)[2]) {
  sums[0] += Half::low(packed);
  sums[1] += Half::high(packed);
}

template <GemmConfig kConfig>
class TileAdder {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  using Half = OutputHalf<kConfig>;
  static constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  static constexpr int32 kRowBytes = kLayout.chunk_columns * 2;
  static constexpr int32 kGroups = kLayout.chunk_columns / 8;  // of 8 columns
  static constexpr int32 kChunksAcross = kConfig.tile_n / kLayout.chunk_columns;
  static constexpr int32 kPlaces = kLayout.pieces_in_a + kLayout.pieces_in_b;
  static constexpr int32 kPieces = kChunksAcross * kConfig.adds;
  static constexpr int32 kWords = kMmas * kConfig.tile_n / 4;

 public:
  // `ring` is the consumer's, at the stage behind the tile's last operands.
  STRETTO_DEVICE TileAdder(const GemmShared<kConfig>& shared, uint32 consumer, RingPosition& ring)
      : shared_(shared), ring_(ring) {
    const uint32 lane = threadIdx.x % 32;
    unit_ = lane / 16;
    row_ = consumer * (kConfig.tile_m / kConfig.consumers) + threadIdx.x / 32 % 4 * 16 + lane % 16;
  }

  // The tile is number `own` of those that are added.
  STRETTO_DEVICE void add_to(uint32 (&packed)[kWords], uint32 own,
                             const TileFollower<kConfig>& follower) {
#pragma unroll
    for (int32 chunk = 0; chunk < kChunksAcross; ++chunk) {
      Sums sums{};
#pragma unroll 1
      for (uint32 number = 0; number <= kConfig.adds; ++number) {
        if (number == own) {
          add_own(packed, chunk, sums);
        } else {
          add_next_piece(sums);
        }
      }
      if constexpr (kFollows<kConfig>) {
        follower.template follow<kGroups>(chunk * kGroups, [&](int32 m, int32 group) {
          return &sums.pairs[m][2 * (group - chunk * kGroups)][0];
        });
      }
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
        for (int32 i = 0; i < 2 * kGroups; ++i) {
          packed[first_word(m, chunk) + i] =
              Half::round_pair(sums.pairs[m][i][0], sums.pairs[m][i][1]);
        }
      }
    }
  }

 private:
  // In the order of `packed`: of every 8 columns rows r and r + 8.
  struct Sums {
    float pairs[kMmas][2 * kGroups][2];
  };

  STRETTO_DEVICE static constexpr int32 first_word(int32 m, int32 chunk) {
    return (m * (kConfig.tile_n / 8) + chunk * kGroups) * 2;
  }

  STRETTO_DEVICE static void add_own(const uint32 (&packed)[kWords], int32 chunk, Sums& sums) {
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
      for (int32 i = 0; i < 2 * kGroups; ++i) {
        add_pair<Half>(packed[first_word(m, chunk) + i], sums.pairs[m][i]);
      }
    }
  }

  STRETTO_DEVICE void add_next_piece(Sums& sums) {
    if (place_ == 0) barrier_wait(shared_.full + ring_.slot * 8, ring_.parity);
    const uint32 piece = shared_.piece(ring_.slot, place_);
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
      const uint32 row = row_ + m * 64;
      const uint32 from = piece + row * kRowBytes;
      const uint32 swizzle = (row * kRowBytes >> 7) & (kRowBytes / 16 - 1);
#pragma unroll
      for (int32 j = 0; j < kGroups; j += 2) {
        uint32 words[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(from + (((j + unit_) ^ swizzle) << 4))
                     : "memory");
#pragma unroll
        for (int32 i = 0; i < 4; ++i) add_pair<Half>(words[i], sums.pairs[m][2 * j + i]);
      }
    }
    ++taken_;
    if (++place_ < kPlaces && taken_ < kPieces) return;
    place_ = 0;
    fence_proxy_async_shared();  // TMA writes what ordinary loads have read
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_.empty + ring_.slot * 8);
    ring_.template advance<kConfig.stages>();
  }

  const GemmShared<kConfig>& shared_;
  RingPosition& ring_;
  uint32 unit_, row_;
  int32 place_ = 0, taken_ = 0;  // within the stage; of all pieces
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
