// bf16 and fp8 (e4m3) as bits, with the same results on every target.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

STRETTO_PRIMITIVE float float_of_bits(uint32 bits) {
#ifdef STRETTO_DEVICE
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

STRETTO_PRIMITIVE uint32 bits_of_float(float value) {
#ifdef STRETTO_DEVICE
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(uint32, value);
#endif
}

STRETTO_PRIMITIVE float bf16_to_float(uint32 bits) { return float_of_bits(bits << 16); }

// Rounds to nearest, ties to even; a NaN stays one.
STRETTO_PRIMITIVE uint32 bf16_from_float(float value) {
  const uint32 bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// Two in a word, the first one low.
STRETTO_PRIMITIVE uint32 bf16x2_from_floats(float low, float high) {
#ifdef STRETTO_DEVICE
  uint32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return bf16_from_float(low) | (bf16_from_float(high) << 16);
#endif
}

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

STRETTO_PRIMITIVE float root(float value) {
#ifdef STRETTO_DEVICE
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

// How a 16-byte vector of an element type is read, summed and told from the sentinel.
//
// The sentinel is a word of negative zeros. Senders turn negative zeros into positive ones, so no
// word of data is ever equal to it, subnormals and NaNs included.
struct Bf16x8 {
  static constexpr int kElements = 8;
  static constexpr uint32 kPoison = 0x80008000u;
  // word + 0, which is exact, makes a negative zero positive, and gives one NaN for all.
  static STRETTO_PRIMITIVE uint32 canonical(uint32 word) {
#ifdef STRETTO_DEVICE
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(word) : "r"(0x3f803f80u), "r"(0u));
    return word;
#else
    const auto half = [](uint32 bits) {
      return (bits & 0x7fffu) > 0x7f80u ? 0x7fffu : bits == 0x8000u ? 0u : bits;
    };
    return half(word & 0xffffu) | half(word >> 16) << 16;
#endif
  }
  static STRETTO_PRIMITIVE void read(float* values, const Vec16& v) {
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) {
      values[2 * i] = bf16_to_float(v.word[i] & 0xffffu);
      values[2 * i + 1] = bf16_to_float(v.word[i] >> 16);
    }
  }
  static STRETTO_PRIMITIVE void add(float* sums, const Vec16& v) {
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) {
      sums[2 * i] += bf16_to_float(v.word[i] & 0xffffu);
      sums[2 * i + 1] += bf16_to_float(v.word[i] >> 16);
    }
  }
  static STRETTO_PRIMITIVE Vec16 round(const float* sums) {
    Vec16 v;
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) v.word[i] =
        bf16x2_from_floats(sums[2 * i], sums[2 * i + 1]);
    return v;
  }
};

struct Fp32x4 {
  static constexpr int kElements = 4;
  static constexpr uint32 kPoison = 0x80000000u;
  static STRETTO_PRIMITIVE uint32 canonical(uint32 word) { return word == kPoison ? 0u : word; }
  static STRETTO_PRIMITIVE void add(float* sums, const Vec16& v) {
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) sums[i] += float_of_bits(v.word[i]);
  }
  static STRETTO_PRIMITIVE Vec16 round(const float* sums) {
    Vec16 v;
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) v.word[i] = bits_of_float(sums[i]);
    return v;
  }
};

template <class Format>
STRETTO_PRIMITIVE Vec16 canonical(Vec16 v) {
  STRETTO_UNROLL for (int i = 0; i < 4; ++i) v.word[i] = Format::canonical(v.word[i]);
  return v;
}

STRETTO_PRIMITIVE Vec16 four_of(uint32 word) { return {{word, word, word, word}}; }

}  // namespace stretto::device
