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

// A thread's share of a stage of kFrom is kEights times eight elements, each of which it stores at
// once: kVectors vectors of the source.
template <MoverType kFrom>
inline constexpr uint32 kEights = kStageBytes / (8 * bytes_of(kFrom) * kGroupWarps * 32);
template <MoverType kFrom>
inline constexpr int32 kVectors = kEights<kFrom> * 8 / FormatOf<kFrom>::kElements;

// What lies past a piece's end in its stage is added too, and not stored.
template <MoverType kFrom>
STRETTO_DEVICE void add_stage(uint32 stage, uint32 thread, float (&sums)[kEights<kFrom> * 8]) {
  constexpr uint32 kOfEight = kVectors<kFrom> / kEights<kFrom>;  // 1 or 2
  add_source<FormatOf<kFrom>, kVectors<kFrom>>(
      [&](uint32 v) {
        const uint32 eight = thread + v / kOfEight * kGroupWarps * 32;
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

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
