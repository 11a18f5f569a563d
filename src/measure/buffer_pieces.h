// A rank's part of a caller's tensor, packed, and the same part in a plan's buffer, whose rows are
// as far apart on all ranks: the last one may have fewer columns of them.
#pragma once

#include <cstddef>

#include "stretto/plan.h"

namespace stretto::runtime {

// Calls visit(offset in the buffer, offset in what is packed, bytes) for what is one piece in both.
template <typename Visit>
void for_each_piece(const Buffer& buffer, int rank, size_t packed_bytes, const Visit& visit) {
  if (packed_bytes == 0) return;
  const auto size = static_cast<size_t>(num_bytes(buffer.dtype));
  const size_t row = static_cast<size_t>(buffer.cols_on(rank)) * size;
  const size_t pitch = static_cast<size_t>(buffer.cols) * size;
  if (row == pitch) return visit(size_t{0}, size_t{0}, packed_bytes);
  for (size_t at = 0; at < packed_bytes; at += row) visit(at / row * pitch, at, row);
}

}  // namespace stretto::runtime
