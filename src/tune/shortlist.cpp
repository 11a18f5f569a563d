#include "tune/shortlist.h"

#include <algorithm>

#include "tune/near_measurements.h"
#include "tune/nearness.h"

namespace stretto {
namespace {

// With fixed rows; the fastest expected first.
std::vector<Schedule> expected(const Segment& op, const Machine& machine, const Tuning& tuning,
                               Predictions& predictions) {
  ExpectedNearby nearby =
      expected_nearby(op, tuning, machine, RowCount::fixed, RowsFrom::host, predictions);
  std::stable_sort(nearby.schedules.begin(), nearby.schedules.end(),
                   [](const Expectation& a, const Expectation& b) { return a.us < b.us; });
  std::vector<Schedule> found;
  for (const Expectation& one : nearby.schedules) found.push_back(one.schedule);
  return found;
}

}  // namespace

std::vector<Schedule> shortlist(const Segment& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, size_t most, Predictions& predictions) {
  return shortlist_of(rows == RowCount::bucket ? served_shortlist(op, machine, tuning)
                                               : expected(op, machine, tuning, predictions),
                      op, machine, rows, most);
}

std::vector<Schedule> shortlist_of(const std::vector<Schedule>& all, const Segment& op,
                                   const Machine& machine, RowCount rows, size_t most) {
  std::vector<Schedule> found;
  const auto is_in = [&](const Schedule& one) {
    return std::find(found.begin(), found.end(), one) != found.end();
  };
  if (!all.empty()) found.push_back(all.front());
  if (rows == RowCount::fixed) {
    const auto library = library_for(op, machine);
    if (library && !is_in(*library)) found.push_back(*library);
  }
  const auto by_library = std::find_if(
      all.begin(), all.end(), [](const Schedule& one) { return one.gemm == GemmBy::library; });
  if (by_library != all.end() && !is_in(*by_library)) found.push_back(*by_library);
  for (const Schedule& one : all) {
    if (!is_in(one)) found.push_back(one);
  }
  found.resize(std::min(found.size(), most));
  return found;
}

}  // namespace stretto
