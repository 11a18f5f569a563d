#include "op/cycles.h"

#include <algorithm>
#include <cstddef>

namespace stretto {

std::vector<int> way_between(const std::vector<std::vector<int>>& next, int from, int to) {
  constexpr int kUnseen = -2, kStart = -1;
  std::vector<int> before(next.size(), kUnseen);
  std::vector<int> reached = {from};  // in the order of their distance
  before[static_cast<size_t>(from)] = kStart;
  for (size_t i = 0; i < reached.size() && before[static_cast<size_t>(to)] == kUnseen; ++i) {
    for (const int node : next[static_cast<size_t>(reached[i])]) {
      if (before[static_cast<size_t>(node)] != kUnseen) continue;
      before[static_cast<size_t>(node)] = reached[i];
      reached.push_back(node);
    }
  }
  std::vector<int> way;
  if (before[static_cast<size_t>(to)] == kUnseen) return way;
  for (int node = to; node != kStart; node = before[static_cast<size_t>(node)]) way.push_back(node);
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace stretto
