// Tables of whole numbers that tasks read and make, and rows that they leave undefined.
#pragma once

#include <cstdint>

#include "stretto/device/routing.h"
#include "tasks/elements.h"
#include "tasks/work.h"

namespace stretto::tasks {

// Element (row, col) of a table.
inline int32_t number_in(const Operand& table, int64_t row, int64_t col = 0) {
  if (table.view.dtype == DType::i64) {
    return device::narrow_id(static_cast<const int64_t*>(table.row(row))[col]);
  }
  return static_cast<const int32_t*>(table.row(row))[col];
}

// Row of the result that nobody may use: NaNs, so that who does is found out.
inline void leave_undefined(const Work& work, int64_t row) {
  fill_poison(work.to.dtype, work.row(row), static_cast<size_t>(work.cols));
}

// Whether one of the ids in a row is an expert of the rank, which has a share of them.
inline bool chooses(const Operand& ids, int64_t row, int64_t experts, int ranks, int rank) {
  const device::ExpertShares shares{static_cast<int32_t>(experts), ranks};
  for (int64_t slot = 0; slot < ids.cols; ++slot) {
    const int64_t id = number_in(ids, row, slot);
    if (id >= shares.begin(rank) && id < shares.begin(rank + 1)) return true;
  }
  return false;
}

}  // namespace stretto::tasks
