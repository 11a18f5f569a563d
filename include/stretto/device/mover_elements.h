// Elements and numbers of tables as add warps load and store them, past the ring.
#pragma once

#include "stretto/device/mover_sum.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A column of whole numbers, or rows of them.
STRETTO_DEVICE int32 number_at(const MoverRegion& table, uint32 row, uint32 column = 0) {
  return *reinterpret_cast<const volatile int32*>(table.address + row * table.row_bytes +
                                                  uint64{column} * 4);
}

// Elements of a type that move at once: eight, as a lane has them.
template <MoverType kType>
struct EightOf {
  static constexpr int32 kVectors = kType == MoverType::fp32 ? 2 : 1;
  Vec16 vector[kVectors];

  STRETTO_DEVICE void load(uint64 address) {
#pragma unroll
    for (int32 i = 0; i < kVectors; ++i) vector[i] = load_vector(address + i * 16);
  }
  STRETTO_DEVICE void widen(float (&values)[8]) const {
    if constexpr (kType == MoverType::fp32) {
#pragma unroll
      for (int32 i = 0; i < 8; ++i) values[i] = float_of_bits(vector[i / 4].word[i % 4]);
    } else {
      FormatOf<kType>::read(values, vector[0]);
    }
  }
};

STRETTO_DEVICE float load_element(uint64 address, MoverType type) {
  return widen_as(type, type == MoverType::fp32
                            ? *reinterpret_cast<const volatile uint32*>(address)
                            : uint32{*reinterpret_cast<const volatile uint16*>(address)});
}
STRETTO_DEVICE void store_element(uint64 address, MoverType type, float value) {
  const uint32 rounded = round_as(type, value);
  if (type == MoverType::fp32) {
    *reinterpret_cast<uint32*>(address) = rounded;
  } else {
    *reinterpret_cast<uint16*>(address) = static_cast<uint16>(rounded);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
