// The fp32 sums of a tile's ranges of K, on their way from the tasks that compute them to the one
// that adds them up.
//
// wgmma gives a lane two columns of every eight. A lane keeps its four of every sixteen columns
// side by side, so that it moves 16 bytes at once and four lanes 64 bytes of a row: the lanes that
// add read what the same lanes of another block left, and nobody else looks. Where a tile ends
// after eight columns of sixteen a lane moves its two.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Of half kHalf of the tile's columns, where they are of two products.
template <GemmConfig kConfig, int32 kHalf>
class RangeSums {
  static constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  static constexpr int32 kSums = kConfig.tile_n / 2;
  static constexpr int32 kColumns = layout_of(kConfig).stored_columns;
  // A step is 16 columns of a row of every lane; rows r and r + 8 take turns.
  static constexpr int32 kStepsDown = kColumns / 8;
  static constexpr int32 kSteps = kMmas * kStepsDown;
  static constexpr int32 kMostAhead = layout_of(kConfig).halves == 2 ? 8 : 16;
  static constexpr int32 kAhead = kSteps <= kMostAhead ? kSteps : kSteps / 2;  // in flight
  static_assert(kColumns % 16 == 0 && kSteps % kAhead == 0,
                "steps in flight divide those of a range");

 public:
  STRETTO_DEVICE RangeSums(const GemmSplit& split, uint32 consumer)
      : columns_(split.columns), row_bytes_(split.row_bytes), step_(uint64{split.step} * 16) {
    const uint32 thread = threadIdx.x;
    quad_ = thread % 4;
    const uint32 row =
        consumer * (kConfig.tile_m / kConfig.consumers) + thread / 32 % 4 * 16 + thread % 32 / 4;
    rows_ = split.rows > row ? split.rows - row : 0;
    first_ = split.sums + uint64{row} * row_bytes_;
  }

  // Leaves them there.
  STRETTO_DEVICE void keep(const float (&sums)[kMmas][kSums]) const {
#pragma unroll
    for (int32 step = 0; step < kSteps; ++step) {
      const float* const from = sums[step / kStepsDown] + first_sum(step);
      const uint64 address = first_ + row_of(step) * row_bytes_;
      if (has_row(step) && is_whole(step)) {
        store_vector(address + offset(step, 16), from[0], from[1], from[4], from[5]);
      } else if (has_row(step) && has_half(step)) {
        store_pair(address + offset(step, 8), from[0], from[1]);
      }
    }
  }

  // Adds those of the ranges behind the first.
  STRETTO_DEVICE void add_to(uint32 ranges, float (&sums)[kMmas][kSums]) const {
    Vec16 ahead[kAhead];
    uint64 base = first_ + step_;
#pragma unroll
    for (int32 step = 0; step < kAhead; ++step) load(base, step, ahead[step]);
#pragma unroll 1
    for (uint32 left = ranges - 1; left != 0; --left) {
#pragma unroll
      for (int32 step = 0; step < kSteps; ++step) {
        Vec16& piece = ahead[step % kAhead];
        float* const to = sums[step / kStepsDown] + first_sum(step);
        to[0] += float_of_bits(piece.word[0]);
        to[1] += float_of_bits(piece.word[1]);
        to[4] += float_of_bits(piece.word[2]);
        to[5] += float_of_bits(piece.word[3]);
        if (step + kAhead < kSteps) {
          load(base, step + kAhead, piece);
        } else if (left > 1) {
          load(base + step_, step + kAhead - kSteps, piece);
        }
      }
      base += step_;
    }
  }

 private:
  STRETTO_DEVICE static int32 column_of(int32 step) { return step % kStepsDown / 2 * 16; }
  STRETTO_DEVICE static uint32 row_of(int32 step) {
    return static_cast<uint32>(step / kStepsDown * 64 + step % 2 * 8);
  }
  // The first of the lane's sums; the next group of eight columns has its own four further on.
  STRETTO_DEVICE static int32 first_sum(int32 step) {
    return (kHalf * kColumns + column_of(step)) / 2 + step % 2 * 2;
  }

  STRETTO_DEVICE bool has_row(int32 step) const { return row_of(step) < rows_; }
  STRETTO_DEVICE bool is_whole(int32 step) const {
    return static_cast<uint32>(column_of(step)) + 16 <= columns_;
  }
  STRETTO_DEVICE bool has_half(int32 step) const {
    return static_cast<uint32>(column_of(step)) < columns_;
  }
  STRETTO_DEVICE uint32 offset(int32 step, uint32 bytes) const {
    return static_cast<uint32>(column_of(step)) * 4 + quad_ * bytes;
  }

  // Zeros beyond the rows and columns.
  STRETTO_DEVICE void load(uint64 base, int32 step, Vec16& piece) const {
    const uint64 address = base + row_of(step) * row_bytes_;
    if (has_row(step) && is_whole(step)) {
      piece = load_vector(address + offset(step, 16));
      return;
    }
    piece = {};
    if (has_row(step) && has_half(step)) load_pair(address + offset(step, 8), piece);
  }

  uint32 columns_, row_bytes_;
  uint64 step_;  // from range to range
  uint32 quad_;
  uint32 rows_;   // from this lane's first on
  uint64 first_;  // this lane's first row in range 0
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
