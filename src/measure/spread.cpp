#include "measure/spread.h"

#include <algorithm>
#include <utility>

#include "stretto/error.h"

namespace stretto::runtime {

Spread spread_of(std::vector<double> times) {
  STRETTO_ASSERT(!times.empty(), "something was timed");
  std::sort(times.begin(), times.end());
  const size_t half = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
  return {median, times.front(), times.back()};
}

double median_of(std::vector<double> times) { return spread_of(std::move(times)).median; }

}  // namespace stretto::runtime
