#include "op/call_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stretto/error.h"

namespace stretto {
namespace {

// Rows of both may alternate, as those of two views of one matrix do.
bool share_bytes(const CallRows& a, const CallRows& b) {
  if (a.begin >= b.end() || b.begin >= a.end()) return false;
  for (int64_t i = 0, j = 0; i < a.count && j < b.count;) {
    if (a.row(i) + a.width <= b.row(j)) {
      ++i;
    } else if (b.row(j) + b.width <= a.row(i)) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

std::string said(const PlacedTensor& tensor) {
  if (tensor.rank < 0) return std::string(tensor.name);
  return fmt::format("{} of rank {}", tensor.name, tensor.rank);
}

}  // namespace

void require_apart(std::span<const PlacedTensor> tensors) {
  std::vector<const PlacedTensor*> sorted;
  for (const PlacedTensor& one : tensors) {
    if (!one.rows.empty()) sorted.push_back(&one);
  }
  std::ranges::stable_sort(sorted, {}, [](const PlacedTensor* one) { return one->rows.begin; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = i + 1; j < sorted.size(); ++j) {
      if (sorted[j]->rows.begin >= sorted[i]->rows.end()) break;  // as all behind it do
      if (!sorted[i]->is_output && !sorted[j]->is_output) continue;
      if (!share_bytes(sorted[i]->rows, sorted[j]->rows)) continue;
      const auto [first, second] = std::minmax(sorted[i], sorted[j]);  // as they were given
      throw UsageError(
          fmt::format("tensors {} and {} lie on each other, and {} is written: give outputs memory "
                      "of their own",
                      said(*first), said(*second), said(second->is_output ? *second : *first)));
    }
  }
}

}  // namespace stretto
