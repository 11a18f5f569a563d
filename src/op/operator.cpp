// What an operator is asked, once its sizes are known.
#include "stretto/operator.h"

#include <algorithm>

#include "op/graph_text.h"
#include "stretto/error.h"
#include "stretto/segment.h"

namespace stretto {

const std::string& Operator::name() const { return text->name; }

bool Operator::has_teams() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const Stage& stage) { return stage.team > 0; });
}

std::optional<Held> Operator::output_held(int tensor) const {
  for (const OperatorOutput& output : outputs) {
    if (output.tensor == tensor) return output.held;
  }
  return std::nullopt;
}

Operator::Operator(const Segment& product) {
  validate(product);
  *this =
      make_operator(to_string(product.kind), {{"m", product.m}, {"n", product.n}, {"k", product.k}},
                    product.ranks, product.dtype);
}

double link_bytes(const Operator& op) {
  double bytes = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) bytes += link_bytes(*segment.product);
    const EdgeKind& edge = kind_of(segment.edge);
    const Tensor& tensor = op.tensor(segment.input);
    bytes += edge.times_sent * static_cast<double>(tensor.rows) * static_cast<double>(tensor.cols) *
             static_cast<double>(num_bytes(op.dtype)) * (op.ranks - 1) / op.ranks /
             (edge.exchanges ? op.ranks : 1);
  }
  return bytes;
}

bool Operator::ends_with_terms() const {
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (segment->product) return segment->product->makes_terms();
  }
  return false;
}

Operator with_rows(const Operator& op, int64_t rows) {
  Sizes sizes = op.sizes;
  sizes.front().second = rows;
  return make_graph(op.text, sizes, op.ranks, op.dtype);
}

void validate(const Operator& op) {
  if (op.text == nullptr) throw UsageError("an operator without a graph");
  make_graph(op.text, op.sizes, op.ranks, op.dtype);
}

double flops_per_rank(const Operator& op) {
  double flops = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) flops += flops_per_rank(*segment.product);
  }
  return flops;
}

std::optional<int> Operator::find_tensor(std::string_view tensor) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == tensor) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::optional<int64_t> Operator::size(std::string_view size) const {
  for (const auto& [name, value] : sizes) {
    if (name == size) return value;
  }
  return std::nullopt;
}

bool Operator::operator==(const Operator& other) const {
  return ranks == other.ranks && dtype == other.dtype && sizes == other.sizes &&
         (text == other.text || text->canonical == other.text->canonical);
}

}  // namespace stretto
