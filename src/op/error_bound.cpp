#include "op/error_bound.h"

#include <algorithm>
#include <cmath>

namespace stretto {

double least_infinite(DType dtype) {
  return dtype == DType::fp16 ? 65520.0 : std::ldexp(2 - unit_roundoff(dtype), 127);
}

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

// In every order a running sum of some of n terms with squares V is near its part of the whole sum
// X: on the average its square is at most V + X^2. n roundings of it, and n of the products.
// Matrix units, of 16-bit types, do not round to nearest: in steps of 16 terms and more they lose
// up to a unit of the last place, in one direction, which adds up.
double sum_variance(double terms, DType dtype) {
  const double unit = unit_roundoff(DType::fp32);
  const double lost = num_bytes(dtype) == 2 ? terms / 16 * 2 : 0;
  return unit * unit * ((terms + 2) / 3 + lost * lost);
}

// Squares of terms are apart from their mean by 2.5 of it; eight deviations of their sum.
double largest_part(double terms) {
  return std::min(1.0, (1 + 2.5 * kDeviations / std::sqrt(terms)) / terms);
}

ErrorBound::ErrorBound(const Segment& op, const Roundings& roundings) {
  const double terms = static_cast<double>(op.local_k());
  const double ranks = op.makes_terms() ? op.ranks : 1;
  const double fp32 = unit_roundoff(DType::fp32);
  certain_ = fp32 * (2 + terms);
  variance_ = sum_variance(terms, op.dtype);
  spread_ = largest_part(static_cast<double>(op.k));
  combine_ = fp32 * (ranks - 1) + unit_roundoff(roundings.partials) * roundings.roundings;
  round_ = kSlack * unit_roundoff(op.dtype);
  // Sums of fp32 that come out subnormal are exact; products are not.
  tiny_ = subnormal_roundoff(op.dtype) + ranks * terms * subnormal_roundoff(DType::fp32) +
          ranks * roundings.roundings * subnormal_roundoff(roundings.partials);
}

double ErrorBound::at(double value, double norms, double partials) const {
  const double squares = spread_ * norms * norms + partials * partials;
  const double summed = std::min(certain_ * norms, kDeviations * std::sqrt(variance_ * squares));
  const double combined = kSlack * (summed + combine_ * (partials + summed));
  return combined + round_ * (std::fabs(value) + combined) + tiny_;
}

}  // namespace stretto
