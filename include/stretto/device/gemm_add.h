// Adding what other ranks sent to a tile that a consumer of the GEMM kernel has just finished.
//
// The tile is rounded to the 16 bits in which partial sums travel, then all sums are added in fp32
// in rank order and rounded once more: the same numbers as of a reduce task. Sources are read into
// registers a few steps ahead, in whole sectors: eight columns a lane. wgmma gives a lane two
// columns of every eight, so lanes of four trade words of the tile before and after.
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

template <bool kBf16>
STRETTO_DEVICE uint32 pack_pair(float low, float high) {
  uint32 packed;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

template <bool kBf16>
STRETTO_DEVICE void add_pair(uint32 packed, float (&sums)[2]) {
  if constexpr (kBf16) {
    sums[0] += __uint_as_float(packed << 16);
    sums[1] += __uint_as_float(packed & 0xffff0000);
  } else {
    float low, high;
    asm("{\n"
        ".reg .b16 l, h;\n"
        "mov.b32 {l, h}, %2;\n"
        "cvt.f32.f16 %0, l;\n"
        "cvt.f32.f16 %1, h;\n"
        "}"
        : "=f"(low), "=f"(high)
        : "r"(packed));
    sums[0] += low;
    sums[1] += high;
  }
}

// Word i of lane j goes to word j of lane i, in every four lanes.
STRETTO_DEVICE void transpose_in_quad(uint32 (&words)[4], uint32 lane) {
#pragma unroll
  for (int32 step = 1; step <= 2; step *= 2) {
    const bool upper = (lane & static_cast<uint32>(step)) != 0;
#pragma unroll
    for (int32 i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const uint32 sent = upper ? words[i] : words[i + step];
      const uint32 got = __shfl_xor_sync(0xffffffffu, sent, step);
      if (upper) {
        words[i] = got;
      } else {
        words[i + step] = got;
      }
    }
  }
}

template <GemmConfig kConfig>
class SourceAdder {
  static constexpr bool kBf16 = kConfig.output == OutputType::bf16;
  static constexpr uint32 kSources = static_cast<uint32>(kConfig.adds);
  // A step adds 32 columns of 64 rows of the consumer's tile.
  static constexpr int32 kStepsAcross = kConfig.tile_n / 32;
  static constexpr int32 kSteps = kStepsAcross * (kConfig.tile_m / kConfig.consumers / 64);
  static constexpr int32 kAhead = 8;  // steps whose first source is in flight
  static constexpr int32 kWords = kConfig.tile_m / kConfig.consumers / 64 * kConfig.tile_n / 4;

 public:
  STRETTO_DEVICE SourceAdder(const GemmTask& task, const uint64* sources, uint32 consumer)
      : lane_(threadIdx.x % 32),
        own_at_(task.own_at),
        rows_(task.add_rows),
        columns_(task.add_columns),
        row_bytes_(task.add_row_bytes),
        row_(consumer * (kConfig.tile_m / kConfig.consumers) + threadIdx.x / 32 % 4 * 16 +
             lane_ / 4),
        step_(uint64{task.source_step} * 16),
        first_(sources[task.source] + row_ * row_bytes_ + lane_ % 4 * 16) {}

  STRETTO_DEVICE void add_to(uint32 (&packed)[kWords]) {
    Piece ahead[kAhead];
#pragma unroll
    for (int32 i = 0; i < kAhead && i < kSteps; ++i) load(i, 0, ahead[i]);
#pragma unroll
    for (int32 step = 0; step < kSteps; ++step) {
      // Column group j's rows r and r + 8 are packed[first + 2j] and the next.
      const int32 first =
          (step / kStepsAcross * (kConfig.tile_n / 8) + step % kStepsAcross * 4) * 2;
      Piece own;
#pragma unroll
      for (int32 i = 0; i < 2; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) own.words[i][j] = packed[first + 2 * j + i];
        transpose_in_quad(own.words[i], lane_);
      }
      Sums sums{};
      Piece& next = ahead[step % kAhead];
#pragma unroll 1
      for (uint32 s = 0; s < kSources; s += 2) {
        Piece second;
        if (s + 1 < kSources) load(step, s + 1, second);
        add(own, sums, mask_of_own(s));
        add(next, sums, ~0u);
        if (s + 2 < kSources) {
          load(step, s + 2, next);
        } else if (step + kAhead < kSteps) {
          load(step + kAhead, 0, next);
        }
        if (s + 1 < kSources) {
          add(own, sums, mask_of_own(s + 1));
          add(second, sums, ~0u);
        }
      }
      add(own, sums, mask_of_own(kSources));
#pragma unroll
      for (int32 i = 0; i < 2; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) {
          own.words[i][j] = pack_pair<kBf16>(sums.value[i][j][0], sums.value[i][j][1]);
        }
        transpose_in_quad(own.words[i], lane_);
#pragma unroll
        for (int32 j = 0; j < 4; ++j) packed[first + 2 * j + i] = own.words[i][j];
      }
    }
  }

 private:
  // words[h]: 16 bytes of 32 columns' row r + 8h.
  struct Piece {
    uint32 words[2][4];
  };
  struct Sums {
    float value[2][4][2];
  };

  // The tile itself is added where its number comes, elsewhere zeros that change nothing.
  STRETTO_DEVICE uint32 mask_of_own(uint32 number) const { return number == own_at_ ? ~0u : 0u; }

  STRETTO_DEVICE static void add(const Piece& piece, Sums& sums, uint32 mask) {
#pragma unroll
    for (int32 i = 0; i < 2; ++i) {
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        add_pair<kBf16>(piece.words[i][j] & mask, sums.value[i][j]);
      }
    }
  }

  // Zeros beyond the task's rows and columns.
  STRETTO_DEVICE void load(int32 step, uint32 s, Piece& piece) const {
    const uint32 down = static_cast<uint32>(step / kStepsAcross * 64);
    const uint32 column = static_cast<uint32>(step % kStepsAcross * 32);
    const uint64 source = first_ + (s + (s >= own_at_)) * step_;
#pragma unroll
    for (int32 i = 0; i < 2; ++i) {
      const uint32 row = down + i * 8;
      if (row_ + row < rows_ && column + lane_ % 4 * 8 < columns_) {
        load_vector(source + row * row_bytes_ + column * 2, piece.words[i]);
      } else {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) piece.words[i][j] = 0;
      }
    }
  }

  uint32 lane_, own_at_;
  uint32 rows_, columns_, row_bytes_, row_;
  uint64 step_;   // from source to source
  uint64 first_;  // this lane's first 16 bytes of source 0
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
