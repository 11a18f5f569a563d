#include "tune/expected_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"
#include "tune/near_measurements.h"

namespace stretto {

AutoSchedule expected_schedule(const Operator& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, RowsFrom from, Predictions& predictions) {
  const ExpectedNearby nearby = expected_nearby(op, tuning, machine, rows, from, predictions);
  if (nearby.schedules.empty()) {
    throw UsageError(
        "nothing serves this with rows that stand in GPU memory: say them to each run");
  }
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
  const Operator& there = nearby.operators.front()->op;
  return {best->schedule,
          fmt::format("{}, corrected by what was measured on {}m={} n={} k={} with {} ranks "
                      "(stretto tune measures it)",
                      fastest, count > 1 ? fmt::format("{} shapes, first ", count) : "", there.m,
                      there.n, there.k, there.ranks)};
}

}  // namespace stretto
