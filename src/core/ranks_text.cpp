#include "core/ranks_text.h"

#include <fmt/format.h>

namespace stretto {

std::string ranks_text(int start, int stride, int size) {
  if (size <= 0) return "no ranks";
  if (size == 1) return fmt::format("rank {}", start);
  if (stride == 1 && size > 2) return fmt::format("ranks {} to {}", start, start + size - 1);
  constexpr int kMost = 16;
  std::string text = "ranks";
  for (int i = 0; i < size && i < kMost; ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ",", start + i * stride);
  }
  return size > kMost ? text + ", ..." : text;
}

}  // namespace stretto
