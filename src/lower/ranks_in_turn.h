// What several ranks have to emit, each a list of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stretto {

// The first of every rank, then the second of every rank, and so on: visit(rank, item).
template <typename Item, typename Visit>
void ranks_in_turn(const std::vector<std::vector<Item>>& by_rank, const Visit& visit) {
  size_t most = 0;
  for (const std::vector<Item>& own : by_rank) most = std::max(most, own.size());
  for (size_t i = 0; i < most; ++i) {
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (i < by_rank[rank].size()) visit(static_cast<int>(rank), by_rank[rank][i]);
    }
  }
}

}  // namespace stretto
