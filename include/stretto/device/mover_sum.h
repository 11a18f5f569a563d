// Sums of a mover's stages and elements, in fp32, in the order in which a task lists its sources.
#pragma once

#include "stretto/device/mover_block.h"
#include "stretto/device/sums.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// In what the sources of a sum come.
template <MoverType kType>
struct FormatOf;
template <>
struct FormatOf<MoverType::bf16> : Bf16x8 {};
template <>
struct FormatOf<MoverType::fp16> : Fp16x8 {};
template <>
struct FormatOf<MoverType::fp32> : Fp32x4 {};

// Of a stage that so many warps share a thread has so many times eight elements, each of which it
// stores at once.
template <MoverType kFrom, uint32 kWarps>
inline constexpr uint32 kEightsOf = kStageBytes / (8 * bytes_of(kFrom) * kWarps * 32);

// Adds eights `first`, `first` + `step`, ... of a stage. What lies past a piece's end is added too,
// and not stored.
template <MoverType kFrom, int32 kSums>
STRETTO_DEVICE void add_stage(uint32 stage, uint32 first, uint32 step, float (&sums)[kSums]) {
  constexpr int32 kVectors = kSums / FormatOf<kFrom>::kElements;
  constexpr uint32 kOfEight = kVectors * 8 / kSums;  // 1 or 2
  add_source<FormatOf<kFrom>, kVectors>(
      [&](uint32 v) {
        const uint32 eight = first + v / kOfEight * step;
        return load_shared_vector(stage + (eight * kOfEight + v % kOfEight) * 16);
      },
      sums);
}

struct EightRounded {
  Vec16 low, high;  // 16-bit types fill `low` only
};
STRETTO_DEVICE EightRounded round_eight(MoverType type, const float* values) {
  if (type == MoverType::fp32) return {Fp32x4::round(values), Fp32x4::round(values + 4)};
  if (type == MoverType::bf16) return {Bf16x8::round(values), {}};
  return {Fp16x8::round(values), {}};
}
STRETTO_DEVICE void widen_eight(MoverType type, const EightRounded& from, float* values) {
  if (type == MoverType::bf16) {
    Bf16x8::read(values, from.low);
  } else if (type == MoverType::fp16) {
    Fp16x8::read(values, from.low);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = float_of_bits(from.low.word[i]);
      values[4 + i] = float_of_bits(from.high.word[i]);
    }
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
