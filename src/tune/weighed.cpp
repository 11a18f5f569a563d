#include "tune/weighed.h"

#include <algorithm>

#include "tune/near_measurements.h"
#include "tune/nearness.h"

namespace stretto {

std::vector<WeighedSchedule> weighed_schedules(const Segment& op, const Machine& machine,
                                               const Tuning& tuning) {
  Predictions predictions(machine);
  return weighed_schedules(op, machine, tuning, predictions);
}

std::vector<WeighedSchedule> weighed_schedules(const Segment& op, const Machine& machine,
                                               const Tuning& tuning, Predictions& predictions) {
  std::vector<WeighedSchedule> weighed;
  for (const TunedOperator* tuned : measured_on(op, machine, tuning)) {
    for (const Measured& measured : tuned->measured) {
      const auto schedule = as_measured(*tuned, measured, op, machine, RowCount::fixed);
      if (schedule) weighed.push_back({*schedule, measured.time_us, true});
    }
    if (weighed.empty()) continue;
    const auto library = library_for(op, machine);
    if (library && tuned->library_us > 0) weighed.push_back({*library, tuned->library_us, true});
    break;
  }
  if (weighed.empty()) {
    const ExpectedNearby nearby =
        expected_nearby(op, tuning, machine, RowCount::fixed, RowsFrom::host, predictions);
    for (const Expectation& one : nearby.schedules)
      weighed.push_back({one.schedule, one.us, false});
  }
  std::stable_sort(weighed.begin(), weighed.end(),
                   [](const auto& a, const auto& b) { return a.us < b.us; });
  return weighed;
}

}  // namespace stretto
