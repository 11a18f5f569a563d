// Ways in a graph whose nodes are numbers.
#pragma once

#include <vector>

namespace stretto {

// A shortest way along `next`, with both ends; one node where they are the same, none where there
// is no way. Time and memory are those of looking at every node and edge once.
std::vector<int> way_between(const std::vector<std::vector<int>>& next, int from, int to);

}  // namespace stretto
