// What rounds of a measurement come to.
#pragma once

#include <vector>

namespace stretto::runtime {

// Microseconds a run, the longest rank's, over the rounds.
struct Spread {
  double median = 0, low = 0, high = 0;
};
// Of at least one.
Spread spread_of(std::vector<double> times);
double median_of(std::vector<double> times);

}  // namespace stretto::runtime
