// bf16, fp16 and fp32 as bits: how every kernel of the project widens, adds and rounds elements,
// with the same results on the GPU and on the emulator, but for the bits of a NaN.
//
// Partial sums are added in fp32 and rounded once, to nearest, ties to even. NaNs stay NaNs.
#pragma once

#include "stretto/device/types.h"

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

// The 16-bit types: an element in the low half of a word, and two in a word, the first one low.
struct Bf16 {
  static constexpr uint32 kMantissaBits = 7;
  static STRETTO_PRIMITIVE float widen(uint32 bits) { return float_of_bits(bits << 16); }
  static STRETTO_PRIMITIVE float low(uint32 word) { return float_of_bits(word << 16); }
  static STRETTO_PRIMITIVE float high(uint32 word) { return float_of_bits(word & 0xffff0000u); }
  static STRETTO_PRIMITIVE uint32 round(float value) {
#ifdef STRETTO_DEVICE
    uint16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const uint32 bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#endif
  }
  static STRETTO_PRIMITIVE uint32 round_pair(float low, float high) {
#ifdef STRETTO_DEVICE
    uint32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return round(low) | (round(high) << 16);
#endif
  }
  // Word + 0, which is exact, makes a negative zero positive, and gives one NaN for all.
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
};

struct Fp16 {
  static constexpr uint32 kMantissaBits = 10;
  static STRETTO_PRIMITIVE float widen(uint32 bits) {
#ifdef STRETTO_DEVICE
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16>(bits)));
    return value;
#else
    const uint32 sign = (bits & 0x8000u) << 16;
    const uint32 size = bits & 0x7fffu;
    if (size >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (size & 0x3ffu) << 13);
    if (size < 0x400u) {  // steps of 2^-24
      return float_of_bits(sign | bits_of_float(static_cast<float>(size) / 16777216.0f));
    }
    return float_of_bits(sign | ((size << 13) + (112u << 23)));
#endif
  }
  // The half is named as part of the word, and not moved out of it.
  static STRETTO_PRIMITIVE float low(uint32 word) {
#ifdef STRETTO_DEVICE
    float value;
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, l;\n}" : "=f"(value) : "r"(word));
    return value;
#else
    return widen(word & 0xffffu);
#endif
  }
  static STRETTO_PRIMITIVE float high(uint32 word) {
#ifdef STRETTO_DEVICE
    float value;
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(value) : "r"(word));
    return value;
#else
    return widen(word >> 16);
#endif
  }
  static STRETTO_PRIMITIVE uint32 round(float value) {
#ifdef STRETTO_DEVICE
    uint16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const uint32 bits = bits_of_float(value);
    const uint32 sign = bits >> 16 & 0x8000u;
    const uint32 size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fffu;
    if (size >= 0x477ff000u) return sign | 0x7c00u;  // half a step over the largest
    if (size < 0x38800000u) {                        // below 2^-14: steps of 2^-24
      return sign | (bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000u);
    }
    return sign | (((size + 0xfffu + (size >> 13 & 1u)) >> 13) - (112u << 10));
#endif
  }
  static STRETTO_PRIMITIVE uint32 round_pair(float low, float high) {
#ifdef STRETTO_DEVICE
    uint32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return round(low) | (round(high) << 16);
#endif
  }
  static STRETTO_PRIMITIVE uint32 canonical(uint32 word) {
#ifdef STRETTO_DEVICE
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(word) : "r"(0x3c003c00u), "r"(0u));
    return word;
#else
    const auto half = [](uint32 bits) {
      return (bits & 0x7fffu) > 0x7c00u ? 0x7fffu : bits == 0x8000u ? 0u : bits;
    };
    return half(word & 0xffffu) | half(word >> 16) << 16;
#endif
  }
};

// How a 16-byte vector of an element type is read, summed and told from the sentinel.
//
// The sentinel is a word of negative zeros. Senders turn negative zeros into positive ones, so no
// word of data is ever equal to it, subnormals and NaNs included.
template <class Half>
struct HalvesX8 {
  static constexpr int kElements = 8;
  static constexpr uint32 kMantissaBits = Half::kMantissaBits;  // tells formats apart
  static constexpr uint32 kPoison = 0x80008000u;
  static STRETTO_PRIMITIVE uint32 canonical(uint32 word) { return Half::canonical(word); }
  static STRETTO_PRIMITIVE void read(float* values, const Vec16& v) {
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) {
      values[2 * i] = Half::low(v.word[i]);
      values[2 * i + 1] = Half::high(v.word[i]);
    }
  }
  static STRETTO_PRIMITIVE void add(float* sums, const Vec16& v) {
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) {
      sums[2 * i] += Half::low(v.word[i]);
      sums[2 * i + 1] += Half::high(v.word[i]);
    }
  }
  static STRETTO_PRIMITIVE Vec16 round(const float* sums) {
    Vec16 v;
    STRETTO_UNROLL for (int i = 0; i < 4; ++i) v.word[i] =
        Half::round_pair(sums[2 * i], sums[2 * i + 1]);
    return v;
  }
};
struct Bf16x8 : HalvesX8<Bf16> {};
struct Fp16x8 : HalvesX8<Fp16> {};

struct Fp32x4 {
  static constexpr int kElements = 4;
  static constexpr uint32 kMantissaBits = 23;
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

// One element of a type that is known at run time only, in the low bits. Type: an enumeration that
// has bf16, fp16 and fp32.
template <class Type>
STRETTO_PRIMITIVE float widen_as(Type type, uint32 bits) {
  if (type == Type::bf16) return Bf16::widen(bits);
  if (type == Type::fp16) return Fp16::widen(bits);
  return float_of_bits(bits);
}
template <class Type>
STRETTO_PRIMITIVE uint32 round_as(Type type, float value) {
  if (type == Type::bf16) return Bf16::round(value);
  if (type == Type::fp16) return Fp16::round(value);
  return bits_of_float(value);
}

}  // namespace stretto::device
