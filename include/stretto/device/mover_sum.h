// Sums of a mover's stages and elements, in fp32, in the order in which a task lists its sources.
#pragma once

#include "stretto/device/mover_block.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

struct Vector16 {
  uint32 word[4];
};

STRETTO_DEVICE Vector16 load_shared_vector(uint32 address) {
  Vector16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

STRETTO_DEVICE void store_vector(uint64 address, const Vector16& v) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

STRETTO_DEVICE float widen_half(MoverType type, uint32 bits) {
  if (type == MoverType::bf16) return __uint_as_float(bits << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16>(bits)));
  return value;
}

STRETTO_DEVICE uint32 round_half(MoverType type, float value) {
  uint16 bits;
  if (type == MoverType::bf16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  } else {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  return bits;
}

// A thread's share of a stage of kFrom: kVectors times eight elements.
template <MoverType kFrom>
inline constexpr uint32 kVectors = kStageBytes / (8 * bytes_of(kFrom) * kGroupWarps * 32);

template <MoverType kFrom>
STRETTO_DEVICE void add_eight(const Vector16& low, const Vector16& high, float (&sums)[8]) {
#pragma unroll
  for (int32 j = 0; j < 4; ++j) {
    if constexpr (kFrom == MoverType::fp32) {
      sums[j] += __uint_as_float(low.word[j]);
      sums[j + 4] += __uint_as_float(high.word[j]);
    } else {
      sums[2 * j] += widen_half(kFrom, low.word[j] & 0xffff);
      sums[2 * j + 1] += kFrom == MoverType::bf16 ? __uint_as_float(low.word[j] & 0xffff0000)
                                                  : widen_half(kFrom, low.word[j] >> 16);
    }
  }
}

// What lies past a piece's end in its stage is added too, and not stored.
template <MoverType kFrom>
STRETTO_DEVICE void add_stage(uint32 stage, uint32 thread, float (&sums)[kVectors<kFrom>][8]) {
  constexpr uint32 kBytes = 8 * bytes_of(kFrom);
  Vector16 low[kVectors<kFrom>], high[kVectors<kFrom>];
#pragma unroll
  for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
    const uint32 at = stage + (thread + i * kGroupWarps * 32) * kBytes;
    low[i] = load_shared_vector(at);
    high[i] = kFrom == MoverType::fp32 ? load_shared_vector(at + 16) : low[i];
  }
#pragma unroll
  for (uint32 i = 0; i < kVectors<kFrom>; ++i) add_eight<kFrom>(low[i], high[i], sums[i]);
}

struct EightRounded {
  Vector16 low, high;  // 16-bit types fill `low` only
};
STRETTO_DEVICE EightRounded round_eight(MoverType type, const float (&values)[8]) {
  EightRounded rounded{};
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (type == MoverType::fp32) {
      rounded.low.word[i] = __float_as_uint(values[i]);
      rounded.high.word[i] = __float_as_uint(values[i + 4]);
    } else {
      rounded.low.word[i] = round_half(type, values[2 * i]) | round_half(type, values[2 * i + 1])
                                                                  << 16;
    }
  }
  return rounded;
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
