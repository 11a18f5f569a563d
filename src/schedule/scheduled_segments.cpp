#include "schedule/scheduled_segments.h"

#include <algorithm>

namespace stretto {

std::vector<const OperatorSegment*> scheduled_products(const Operator& op) {
  std::vector<const OperatorSegment*> products;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) products.push_back(&segment);
  }
  return products;
}

std::vector<const OperatorSegment*> scheduled_edges(const Operator& op) {
  const auto comes_before = [](const OperatorSegment& a, const OperatorSegment& b) {
    return !b.product && (a.product || (a.is_edge() && !b.is_edge()));
  };
  std::vector<const OperatorSegment*> edges;
  for (const OperatorSegment& segment : op.segments) {
    const bool is_taken =
        std::any_of(op.segments.begin(), op.segments.end(), [&](const OperatorSegment& other) {
          return other.name == segment.name && comes_before(other, segment);
        });
    if (!segment.product && !is_taken) edges.push_back(&segment);
  }
  return edges;
}

std::vector<std::string_view> names_of_scheduled_edges(const Operator& op) {
  std::vector<std::string_view> names;
  for (const OperatorSegment* edge : scheduled_edges(op)) names.push_back(edge->name);
  return names;
}

bool takes_choices(const Operator& op, const OperatorSegment& one) {
  const Segment& product = *one.product;
  const Tensor& x = op.tensor(one.input);
  return x.rows == product.m * product.top_k && (product.top_k > 1 || x.held == Held::routed);
}

}  // namespace stretto
