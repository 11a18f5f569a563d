#include <algorithm>
#include <cmath>

#include "stretto/error.h"
#include "stretto/machine.h"

namespace stretto {

double RateCurve::at(double x) const {
  STRETTO_ASSERT(!points.empty(), "a rate curve without points");
  const auto next = std::upper_bound(points.begin(), points.end(), x,
                                     [](double value, const Point& p) { return value < p.x; });
  if (next == points.begin()) return points.front().gb_per_s;
  if (next == points.end()) return points.back().gb_per_s;
  const Point& low = next[-1];
  const double share = std::log(x / low.x) / std::log(next->x / low.x);
  return low.gb_per_s + share * (next->gb_per_s - low.gb_per_s);
}

}  // namespace stretto
