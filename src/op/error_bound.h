// How far a right implementation may be from the exact result; docs/verification.md derives it.
#pragma once

#include "stretto/reference.h"

namespace stretto {

class ErrorBound {
 public:
  ErrorBound(const Segment& op, const Roundings& roundings);

  // `terms` >= the sum of |a||b| over the element's terms; `partials` = the sum of the magnitudes
  // of its ranks' partial sums.
  double at(double value, double terms, double partials) const;

 private:
  double accumulate_;  // relative to `terms`
  double combine_;     // relative to the magnitude of partial sums
  double round_;       // relative to the magnitude of the result
  double tiny_;        // absolute: roundings among a type's subnormal numbers
};

}  // namespace stretto
