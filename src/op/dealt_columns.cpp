#include "op/dealt_columns.h"

#include <fmt/format.h>

namespace stretto {

// There is one within a step of each rank: there the ranks divide it.
NearestDealt nearest_dealt(ColShards shares) {
  const int64_t cols = shares.cols;
  const auto is_dealt = [&](int64_t other) {
    shares.cols = other;
    return shares.are_even() || shares.fit();
  };
  NearestDealt nearest{cols - 1, cols + 1};
  while (nearest.below > 0 && !is_dealt(nearest.below)) --nearest.below;
  while (!is_dealt(nearest.above)) ++nearest.above;
  return nearest;
}

std::string why_not_dealt(const ColShards& shares, const std::string& name) {
  const auto [below, above] = nearest_dealt(shares);
  std::string near = std::to_string(above);
  if (below > 0) near = fmt::format("{} or {}", below, above);
  return fmt::format("in blocks of {}, which leaves none for the last: take {}{}", shares.block(),
                     name, near);
}

}  // namespace stretto
