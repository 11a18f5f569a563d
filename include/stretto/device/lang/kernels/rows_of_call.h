// Calls whose number of rows stands in memory: so one captured graph serves many.
#pragma once

#include "stretto/device/lang/words.h"
#include "stretto/device/run_rows.h"

namespace stretto::device {

// Part of a kernel's arguments. A call then has as many rows as are at `at` when the kernel starts,
// of `row_vectors` each, and what the arguments say of vectors does not count. The others, maxima
// too, are of all calls, whichever way they are told.
template <class Block>
struct RowsOfCall {
  Ptr<Block, const int32> at = {};  // local, the same number on all ranks; null: no such rows
  int32 most = 0;                   // a larger number is taken for this one, one below 0 for 0
  uint32 row_vectors = 0;

  STRETTO_PRIMITIVE bool are_told() const { return static_cast<bool>(at); }
  STRETTO_PRIMITIVE int32 count() const { return rows_within(at[0], most); }
  STRETTO_PRIMITIVE uint32 vectors() const { return static_cast<uint32>(count()) * row_vectors; }
};

}  // namespace stretto::device
