// Elements and numbers of tables as add warps load and store them, past the ring.
#pragma once

#include "stretto/device/mover_sum.h"
#include "stretto/device/routing.h"

namespace stretto::device {

// A column of whole numbers, or rows of them.
STRETTO_PRIMITIVE int32 number_at(const MoverRegion& table, uint32 row, uint32 column = 0) {
  return *reinterpret_cast<const volatile int32*>(table.address + row * table.row_bytes +
                                                  uint64{column} * 4);
}

// Of a row of ids, of 64 bits where they are wide, that begins at an address.
STRETTO_PRIMITIVE int32 id_in(uint64 row, bool are_wide, uint32 column) {
  if (!are_wide) return *reinterpret_cast<const volatile int32*>(row + uint64{column} * 4);
  return narrow_id(*reinterpret_cast<const volatile int64*>(row + uint64{column} * 8));
}
STRETTO_PRIMITIVE int32 id_at(const MoverRegion& ids, bool are_wide, uint32 row, uint32 column) {
  return id_in(ids.address + row * ids.row_bytes, are_wide, column);
}

STRETTO_PRIMITIVE float load_element(uint64 address, MoverType type) {
  return widen_as(type, type == MoverType::fp32
                            ? *reinterpret_cast<const volatile uint32*>(address)
                            : uint32{*reinterpret_cast<const volatile uint16*>(address)});
}

#ifdef STRETTO_DEVICE

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
