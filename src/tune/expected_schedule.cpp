#include "tune/expected_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/near_measurements.h"
#include "tune/nearness.h"

namespace stretto {

AutoSchedule expected_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, RowsFrom from, Predictions& predictions) {
  const ExpectedNearby nearby = expected_nearby(op, tuning, machine, rows, from, predictions);
  require_some_serve(!nearby.schedules.empty());
  const auto best =
      std::min_element(nearby.schedules.begin(), nearby.schedules.end(),
                       [](const Expected& a, const Expected& b) { return a.us < b.us; });
  const std::string fastest =
      fmt::format("the fastest of {} by simulation, {:.1f} us", nearby.schedules.size(), best->us);
  if (nearby.operators.empty()) {
    return {best->schedule,
            fmt::format("{}: nothing like it was measured on {} (stretto tune measures it)",
                        fastest, machine.name)};
  }
  const size_t count = nearby.operators.size();
  return {best->schedule,
          fmt::format("{}, corrected by what was measured on {}{} (stretto tune measures it)",
                      fastest, count > 1 ? fmt::format("{} shapes, first ", count) : "",
                      where_measured(*nearby.operators.front(), machine))};
}

}  // namespace stretto
