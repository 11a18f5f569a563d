// Where the rows of a call's tensors lie in memory, and that no output lies on another tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stretto {

// Rows of a tensor, each of `width` bytes.
struct CallRows {
  uint64_t begin = 0, step = 0, width = 0;
  int64_t count = 0;

  bool empty() const { return count == 0 || width == 0; }
  uint64_t end() const { return begin + static_cast<uint64_t>(count - 1) * step + width; }
  uint64_t row(int64_t index) const { return begin + static_cast<uint64_t>(index) * step; }
};

// A tensor of a call. `rank`: whose, where the call has those of all ranks; else -1.
struct PlacedTensor {
  std::string_view name;
  CallRows rows;
  bool is_output = false;
  int rank = -1;
};

// Throws UsageError naming two that share bytes, of which one is written.
void require_apart(std::span<const PlacedTensor> tensors);

}  // namespace stretto
