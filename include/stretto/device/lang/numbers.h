// fp8 (e4m3) as bits, with the same results on every target, and vectors without the sentinel.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/lang/words.h"

namespace stretto::device {

// Rounds to nearest, ties to even; beyond 448 it is 448, and a NaN stays one.
STRETTO_PRIMITIVE uint32 e4m3_from_float(float value) {
  const uint32 bits = bits_of_float(value);
  const uint32 sign = bits >> 24 & 0x80u;
  const uint32 size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7fu;
  if (size >= 0x43e00000u) return sign | 0x7eu;
  if (size < 0x3c800000u) {  // below 2^-6: steps of 2^-9
    return sign | (bits_of_float(float_of_bits(size) + 16384.0f) - 0x46800000u);
  }
  return sign | (((size + 0x7ffffu + (size >> 20 & 1u)) >> 20) - (120u << 3));
}

STRETTO_PRIMITIVE float e4m3_to_float(uint32 bits) {
  const uint32 sign = (bits & 0x80u) << 24;
  const uint32 size = bits & 0x7fu;
  if (size == 0x7fu) return float_of_bits(sign | 0x7fc00000u);
  if (size < 8) return float_of_bits(sign | bits_of_float(static_cast<float>(size) / 512.0f));
  return float_of_bits(sign | ((size << 20) + (120u << 23)));
}

// Four in a word, the first one lowest.
STRETTO_PRIMITIVE uint32 e4m3x4_from_floats(const float* values) {
#if defined(STRETTO_DEVICE) && __CUDA_ARCH__ >= 890
  unsigned short low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(values[1]), "f"(values[0]));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(values[3]), "f"(values[2]));
  return low | static_cast<uint32>(high) << 16;
#else
  uint32 word = 0;
  STRETTO_UNROLL for (int i = 0; i < 4; ++i) word |= e4m3_from_float(values[i]) << (8 * i);
  return word;
#endif
}

template <class Format>
STRETTO_PRIMITIVE Vec16 canonical(Vec16 v) {
  STRETTO_UNROLL for (int i = 0; i < 4; ++i) v.word[i] = Format::canonical(v.word[i]);
  return v;
}

// Negative zeros become positive ones, and all else keeps its bits, NaNs too. The sentinel has the
// sign bit of each element.
template <class Format>
STRETTO_PRIMITIVE Vec16 positive_zeros(Vec16 v) {
  constexpr uint32 kRest = ~Format::kPoison;
  // The sum has an element's sign bit where its other bits are not all zero; it has no carry.
  STRETTO_UNROLL for (int i = 0; i < 4; ++i) { v.word[i] &= ((v.word[i] & kRest) + kRest) | kRest; }
  return v;
}

STRETTO_PRIMITIVE Vec16 four_of(uint32 word) { return {{word, word, word, word}}; }

}  // namespace stretto::device
