// How far a right implementation may be from the exact result; docs/verification.md derives it.
#pragma once

#include "stretto/reference.h"

namespace stretto {

// Roundings are as good as independent of each other and of what they round: a sum of their errors
// is as good as never farther from 0 than so many of its deviations.
inline constexpr double kDeviations = 8;
// Second-order terms, and the reference's own fp64 roundings.
inline constexpr double kSlack = 1.01;

// The least magnitude that is rounded to an infinity.
double least_infinite(DType dtype);
// Half the distance between a type's subnormal numbers.
double subnormal_roundoff(DType dtype);

// Mean square of the error of an fp32 sum of so many products of elements of a type, any order, for
// each unit of (the sum of the terms' squares + the square of the sum).
double sum_variance(double terms, DType dtype);

// The sum of the squares of so many terms, each a normal number times another one, is not seen to
// be more than this part of the square of the product of their norms.
double largest_part(double terms);

// Of an output that is one product of random values.
class ErrorBound {
 public:
  ErrorBound(const Segment& op, const Roundings& roundings);

  // `norms`: the product of the norms of the element's rows of A and B, which is >= the sum of
  // |a||b| over its terms; `partials` = the sum of the magnitudes of its ranks' partial sums.
  double at(double value, double norms, double partials) const;

 private:
  double certain_;   // error of sums, relative to `norms`
  double variance_;  // of sums, as sum_variance()
  double spread_;    // times the square of `norms`: at least the sum of the terms' squares
  double combine_;   // relative to the magnitude of partial sums
  double round_;     // relative to the magnitude of the result
  double tiny_;      // absolute: roundings among a type's subnormal numbers
};

}  // namespace stretto
