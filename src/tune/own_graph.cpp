#include "tune/own_graph.h"

#include "tune/limits.h"

namespace stretto {

std::string text_of_own(const Operator& op) {
  return find_graph(op.name()) == op.text ? "" : print(*op.text);
}

bool can_be_filed(const Operator& op) {
  const Segment* const only = op.only_product();
  if (only == nullptr) return text_of_own(op).size() <= kMostTunedGraph;
  return only->weights == 1 && !only->on_every_rank;
}

}  // namespace stretto
