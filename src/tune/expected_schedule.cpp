#include "tune/expected_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tune/near_measurements.h"
#include "tune/nearness.h"
#include "tune/sureness.h"

namespace stretto {

namespace {

// Whether our own kernels would have been taken if something near had been measured.
bool is_for_doubt(const Expectation& best, const ExpectedNearby& nearby) {
  if (!nearby.is_thin || best.schedule.gemm != GemmBy::library) return false;
  return std::any_of(nearby.schedules.begin(), nearby.schedules.end(), [&](const auto& one) {
    return one.schedule.gemm != GemmBy::library && one.us / nearby.doubt < best.us;
  });
}

}  // namespace

AutoSchedule expected_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, RowsFrom from, Predictions& predictions) {
  const ExpectedNearby nearby = expected_nearby(op, tuning, machine, rows, from, predictions);
  require_some_serve(!nearby.schedules.empty());
  const auto best =
      std::min_element(nearby.schedules.begin(), nearby.schedules.end(),
                       [](const Expectation& a, const Expectation& b) { return a.us < b.us; });
  std::string fastest =
      fmt::format("the fastest of {} by simulation, {:.1f} us", nearby.schedules.size(), best->us);
  if (is_for_doubt(*best, nearby)) {
    fastest += ", cuBLAS for a small lead of our kernels that nothing near confirms";
  }
  const double lead = lead_of(best->schedule, best->us, nearby.schedules);
  if (nearby.operators.empty()) {
    return with_sureness(
        {best->schedule,
         fmt::format("{}: nothing like it was measured on {} (stretto tune measures it)", fastest,
                     machine.name)},
        sure_elsewhere(op, HUGE_VAL, lead));
  }
  const size_t count = nearby.operators.size();
  const TunedOperator& nearest = *nearby.operators.front();
  return with_sureness(
      {best->schedule,
       fmt::format("{}, corrected by what was measured on {}{} (stretto tune measures it)", fastest,
                   count > 1 ? fmt::format("{} shapes, first ", count) : "",
                   where_measured(nearest, machine))},
      sure_elsewhere(op, reach(nearest, op, machine), lead));
}

}  // namespace stretto
