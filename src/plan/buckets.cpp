#include "stretto/buckets.h"

#include <algorithm>

namespace stretto {
namespace {

int64_t bucket_of_owners(int64_t owners, int64_t rows) {
  constexpr int64_t kLeast = 64;
  const int64_t own_rows = (std::max<int64_t>(1, rows) + owners - 1) / owners;
  int64_t octave = kLeast;
  while (octave * 2 < own_rows) octave *= 2;
  // Eight steps from an octave to the next.
  const int64_t step = std::max(kLeast, octave / 8);
  return (own_rows + step - 1) / step * step * owners;
}

}  // namespace

int64_t bucket_of(ProductKind kind, int ranks, int64_t rows) {
  return bucket_of_owners(Segment{kind}.owns_rows() ? ranks : 1, rows);
}

bool owns_rows(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(),
                     [](const OperatorSegment& segment) {
                       return segment.result_held == Held::rows ||
                              (segment.product && segment.product->owns_rows());
                     }) ||
         std::any_of(op.tensors.begin(), op.tensors.end(), [&](const Tensor& tensor) {
           return tensor.held == Held::rows && tensor.rows == op.rows();
         });
}

int64_t bucket_of(const Operator& op, int64_t rows) {
  if (const Segment* only = op.only_product()) return bucket_of(only->kind, op.ranks, rows);
  return bucket_of_owners(owns_rows(op) ? op.ranks : 1, rows);
}

std::vector<int64_t> buckets_up_to(ProductKind kind, int ranks, int64_t rows) {
  std::vector<int64_t> buckets = {bucket_of(kind, ranks, 1)};
  while (buckets.back() < rows) buckets.push_back(bucket_of(kind, ranks, buckets.back() + 1));
  return buckets;
}

}  // namespace stretto
