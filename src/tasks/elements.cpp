#include "tasks/elements.h"

#include <cstring>

// Scalable vectors bring nothing here and cannot be kept in arrays (tile_gemm.cpp does).
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tasks/elements.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::tasks {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using VF = hn::Vec<F32>;
using VU = hn::Vec<U32>;

// The conversions are spelled out on integers, so that every instruction set gives the same bits.

struct Bf16 {
  using T = uint16_t;
  static HWY_INLINE VF widen(const uint16_t* from) {
    const VU bits = hn::PromoteTo(U32(), hn::LoadU(U16(), from));
    return hn::BitCast(F32(), hn::ShiftLeft<16>(bits));
  }
  static HWY_INLINE void round(VF value, uint16_t* to) {
    const U32 du;
    const VU bits = hn::BitCast(du, value);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const VU rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    const VU quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
    const VU result = hn::IfThenElse(is_nan, quiet, rounded);
    hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), result)), U16(), to);
  }
};

struct Fp16 {
  using T = uint16_t;
  // Exponent and fraction go to their fp32 places, then the exponent is rebased by 112; infinities
  // and NaNs by another 112; subnormals are made by a subtraction that is exact.
  static HWY_INLINE VF widen(const uint16_t* from) {
    const U32 du;
    const F32 df;
    const VU half = hn::PromoteTo(du, hn::LoadU(U16(), from));
    const VU sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
    const VU magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7FFFu)));
    const VU exponent = hn::And(magnitude, hn::Set(du, 0x0F800000u));
    const VU rebias = hn::Set(du, 112u << 23);
    const VU normal = hn::Add(magnitude, rebias);
    const VU special = hn::Add(normal, rebias);
    const VU one = hn::Set(du, 113u << 23);  // 2^-14, the smallest normal fp16
    const VU subnormal =
        hn::BitCast(du, hn::Sub(hn::BitCast(df, hn::Or(magnitude, one)), hn::BitCast(df, one)));
    VU bits = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x0F800000u)), special, normal);
    bits = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, bits);
    return hn::BitCast(df, hn::Or(bits, sign));
  }
  static HWY_INLINE void round(VF value, uint16_t* to) {
    const U32 du;
    const I32 di;
    const F32 df;
    const VU all = hn::BitCast(du, value);
    const VU sign = hn::ShiftRight<16>(hn::And(all, hn::Set(du, 0x80000000u)));
    const VU bits = hn::And(all, hn::Set(du, 0x7FFFFFFFu));
    // Signed comparison serves: the sign bit is gone.
    const auto below = [&](uint32_t limit) HWY_ATTR {
      return hn::RebindMask(
          du, hn::Lt(hn::BitCast(di, bits), hn::Set(di, static_cast<int32_t>(limit))));
    };
    const VU odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1u));
    const VU normal = hn::ShiftRight<13>(
        hn::Add(hn::Sub(bits, hn::Set(du, 112u << 23)), hn::Add(odd, hn::Set(du, 0xFFFu))));
    // Adding 0.5 makes the fp32 unit in the last place equal to the fp16 subnormal unit.
    const VU half = hn::Set(du, 0x3F000000u);
    const VU subnormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, bits), hn::BitCast(df, half))), half);
    const VU infinity = hn::Set(du, 0x7C00u);
    const VU nan =
        hn::Or(hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 0x3FFu)), hn::Set(du, 0x7E00u));
    VU result = hn::IfThenElse(below(113u << 23), subnormal, normal);
    result = hn::IfThenElse(below(0x47800000u), result, infinity);  // 65536 and above
    result = hn::IfThenElse(below(0x7F800001u), result, nan);
    hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(di, hn::Or(result, sign))), U16(), to);
  }
};

struct Fp32 {
  using T = float;
  static HWY_INLINE VF widen(const float* from) { return hn::LoadU(F32(), from); }
  static HWY_INLINE void round(VF value, float* to) { hn::StoreU(value, F32(), to); }
};

// Numbers of rows, which are exact where fp32 can hold them.
struct Index {
  using T = int32_t;
  static HWY_INLINE VF widen(const int32_t* from) {
    return hn::ConvertTo(F32(), hn::LoadU(I32(), from));
  }
  static HWY_INLINE void round(VF value, int32_t* to) {
    hn::StoreU(hn::NearestInt(value), I32(), to);
  }
};

// Numbers of 64 bits, of which fp32 holds those that inputs are made of.
void widen_wide(const void* from, float* to, size_t count) {
  const auto* source = static_cast<const int64_t*>(from);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(source[i]);
}
void round_wide(const float* from, void* to, size_t count) {
  auto* target = static_cast<int64_t*>(to);
  for (size_t i = 0; i < count; ++i) target[i] = std::llrint(from[i]);
}
void add_wide(const void* from, float* sum, size_t count) {
  const auto* source = static_cast<const int64_t*>(from);
  for (size_t i = 0; i < count; ++i) sum[i] += static_cast<float>(source[i]);
}

// Calls body(type, offset) for whole vectors; the rest goes through a padded buffer.
template <class Type>
void widen_as(const void* from, float* to, size_t count) {
  const F32 df;
  const size_t lanes = hn::Lanes(df);
  const auto* source = static_cast<const typename Type::T*>(from);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Type::widen(source + i), df, to + i);
  if (i == count) return;
  typename Type::T rest[HWY_MAX_BYTES / sizeof(float)] = {};
  float wide[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(rest, source + i, (count - i) * sizeof(rest[0]));
  hn::StoreU(Type::widen(rest), df, wide);
  std::memcpy(to + i, wide, (count - i) * sizeof(float));
}

template <class Type>
void round_as(const float* from, void* to, size_t count) {
  const F32 df;
  const size_t lanes = hn::Lanes(df);
  auto* target = static_cast<typename Type::T*>(to);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) Type::round(hn::LoadU(df, from + i), target + i);
  if (i == count) return;
  typename Type::T rest[HWY_MAX_BYTES / sizeof(float)];
  float wide[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(wide, from + i, (count - i) * sizeof(float));
  Type::round(hn::LoadU(df, wide), rest);
  std::memcpy(target + i, rest, (count - i) * sizeof(rest[0]));
}

template <class Type>
void add_as(const void* from, float* sum, size_t count) {
  const F32 df;
  const size_t lanes = hn::Lanes(df);
  const auto* source = static_cast<const typename Type::T*>(from);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(df, sum + i), Type::widen(source + i)), df, sum + i);
  }
  if (i == count) return;
  float wide[HWY_MAX_BYTES / sizeof(float)];
  widen_as<Type>(source + i, wide, count - i);
  for (size_t j = 0; i < count; ++i, ++j) sum[i] += wide[j];
}

void widen(DType dtype, const void* from, float* to, size_t count) {
  switch (dtype) {
    case DType::bf16:
      return widen_as<Bf16>(from, to, count);
    case DType::fp16:
      return widen_as<Fp16>(from, to, count);
    case DType::fp32:
      return widen_as<Fp32>(from, to, count);
    case DType::i32:
      return widen_as<Index>(from, to, count);
    case DType::i64:
      return widen_wide(from, to, count);
  }
}

void round_elements(DType dtype, const float* from, void* to, size_t count) {
  switch (dtype) {
    case DType::bf16:
      return round_as<Bf16>(from, to, count);
    case DType::fp16:
      return round_as<Fp16>(from, to, count);
    case DType::fp32:
      return round_as<Fp32>(from, to, count);
    case DType::i32:
      return round_as<Index>(from, to, count);
    case DType::i64:
      return round_wide(from, to, count);
  }
}

void add_elements(DType dtype, const void* from, float* sum, size_t count) {
  switch (dtype) {
    case DType::bf16:
      return add_as<Bf16>(from, sum, count);
    case DType::fp16:
      return add_as<Fp16>(from, sum, count);
    case DType::fp32:
      return add_as<Fp32>(from, sum, count);
    case DType::i32:
      return add_as<Index>(from, sum, count);
    case DType::i64:
      return add_wide(from, sum, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto::tasks
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::tasks {

HWY_EXPORT(widen);
HWY_EXPORT(round_elements);
HWY_EXPORT(add_elements);

void widen(DType dtype, const void* from, float* to, size_t count) {
  HWY_DYNAMIC_DISPATCH(widen)(dtype, from, to, count);
}

void round_elements(DType dtype, const float* from, void* to, size_t count) {
  HWY_DYNAMIC_DISPATCH(round_elements)(dtype, from, to, count);
}

void add_elements(DType dtype, const void* from, float* sum, size_t count) {
  HWY_DYNAMIC_DISPATCH(add_elements)(dtype, from, sum, count);
}

void fill_poison(DType dtype, void* to, size_t count) {
  const size_t halves = count * static_cast<size_t>(num_bytes(dtype)) / sizeof(kPoison);
  auto* bytes = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < halves; ++i)
    std::memcpy(bytes + i * sizeof(kPoison), &kPoison, sizeof(kPoison));
}

}  // namespace stretto::tasks
#endif
