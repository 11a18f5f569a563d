#include "op/error_bound.h"

#include <algorithm>
#include <cmath>

namespace stretto {
namespace {

// Half the distance between a type's subnormal numbers.
double subnormal_roundoff(DType dtype) {
  switch (dtype) {
    case DType::fp16:
      return 0x1p-25;
    case DType::bf16:
      return 0x1p-134;
    case DType::fp32:
      return 0x1p-150;
    case DType::i32:
    case DType::i64:
      break;
  }
  return 0;
}

// Roundings are as good as independent of each other: the error of a sum of n terms grows like
// sqrt(n), and eight deviations are never seen. For few terms the certain bound n is the smaller.
constexpr double kDeviations = 8;
constexpr double kSlack = 1.01;  // second-order terms, and the reference's own fp64 roundings

}  // namespace

ErrorBound::ErrorBound(const Segment& op, const Roundings& roundings) {
  const double terms = static_cast<double>(op.local_k());
  const double ranks = op.makes_terms() ? op.ranks : 1;
  const double fp32 = unit_roundoff(DType::fp32);
  accumulate_ = kSlack * fp32 * (2 + std::min(terms, kDeviations * std::sqrt(terms)));
  combine_ =
      kSlack * (fp32 * (ranks - 1) + unit_roundoff(roundings.partials) * roundings.roundings);
  round_ = kSlack * unit_roundoff(op.dtype);
  // Sums of fp32 that come out subnormal are exact; products are not.
  tiny_ = subnormal_roundoff(op.dtype) + ranks * terms * subnormal_roundoff(DType::fp32) +
          ranks * roundings.roundings * subnormal_roundoff(roundings.partials);
}

double ErrorBound::at(double value, double terms, double partials) const {
  const double summed = accumulate_ * terms;
  const double combined = summed + combine_ * (partials + summed);
  return combined + round_ * (std::fabs(value) + combined) + tiny_;
}

}  // namespace stretto
