#include "measure/look_up_bytes.h"

#include <cmath>

#include "stretto/reference.h"

namespace stretto::runtime {
namespace {

// The first rank's, who has as much of it as any.
double elements_of(const Operator& op, int tensor) {
  const Slice slice = slice_of(op, tensor, op.tensor(tensor).held, 0);
  return static_cast<double>(slice.rows()) * static_cast<double>(slice.cols());
}

// In the mean, of so many at random.
double rows_picked(double rows, double picks) {
  return -rows * std::expm1(picks * std::log1p(-1 / rows));
}

}  // namespace

double look_up_bytes(const Operator& op) {
  double bytes = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product || !segment.product->looks_up()) continue;
    const int weight = segment.weights.front();
    const Tensor &tables = op.tensor(weight), &ids = op.tensor(segment.ids);
    const auto rows = static_cast<double>(tables.rows), cols = static_cast<double>(tables.cols);
    const double count = elements_of(op, weight) / (rows * cols);
    const double picks = elements_of(op, segment.ids);
    bytes += count * rows_picked(rows, picks / count) * cols * num_bytes(tables.dtype);
    bytes += picks * num_bytes(ids.dtype);
  }
  return bytes;
}

}  // namespace stretto::runtime
