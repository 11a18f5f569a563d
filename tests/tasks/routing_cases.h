// What choices come to in a partition, by a few lines, and choices that are not easy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/device/routing.h"

namespace stretto::device {

inline constexpr int32 kUntouched = -77;

struct Case {
  std::string name;
  int tokens, top_k, experts;
  std::vector<int64_t> ids;
};

std::vector<Case> cases();

struct Made {
  std::vector<int32> tokens, expert_of_entry, row_of_choice, rows_of_expert;
  int32 bad_ids = kUntouched;
  bool operator==(const Made&) const = default;
};

// The partition of choices of experts first, first + 1, ... in entries of so many rows, with so
// many entries more than there can be.
Made expected(const Case& of, int first, int experts, int entry_rows, int spare = 0);

}  // namespace stretto::device
