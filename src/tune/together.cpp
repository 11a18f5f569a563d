#include "tune/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace stretto {
namespace {

// Products share SMs, movers and boundaries, and a norm between them goes with some and not with
// others, so that their times alone do not add up.
constexpr std::string_view kForAll[] = {"tiles", "decomposed", "low-latency", "sequential",
                                        "library"};
constexpr double kClearly = 1.03;  // beyond what the simulation errs by, mostly

struct Contender {
  std::string_view name;  // empty: what is fastest for each
  OperatorSchedule schedule;
  double us = 0;
};

}  // namespace

AutoSchedules fastest_together(const Operator& op, const Machine& machine, RowCount rows,
                               AutoSchedules alone, Predictions& predictions) {
  std::vector<Contender> all;
  const auto add = [&](std::string_view name, const OperatorSchedule& schedule) {
    if (legal(op, schedule, machine).empty()) all.push_back({name, schedule});
  };
  add("", alone.schedule);
  const bool goes_together = !all.empty();
  for (const std::string_view name : kForAll) {
    OperatorSchedule schedule = schedule_of(find_preset(name), op, machine);
    for (Schedule& product : schedule.products) product.rows = rows;
    if (schedule != alone.schedule) add(name, schedule);
  }
  if (all.size() < 2) {
    if (!all.empty()) alone.schedule = all.front().schedule;
    return alone;
  }
  std::vector<OperatorSchedule> schedules;
  for (const Contender& one : all) schedules.push_back(one.schedule);
  const std::vector<double> us = predictions.us(op, schedules);
  for (size_t i = 0; i < all.size(); ++i) all[i].us = us[i];
  const auto fastest = std::min_element(
      all.begin(), all.end(), [](const Contender& a, const Contender& b) { return a.us < b.us; });
  if (goes_together && all.front().us <= kClearly * fastest->us) return alone;
  alone.schedule = fastest->schedule;
  alone.reason =
      fmt::format("{} for all, simulated: {:.0f} us; {}", fastest->name, fastest->us,
                  goes_together ? fmt::format("what is fastest for each {:.0f}", all.front().us)
                                : "what is fastest for each does not go together");
  alone.sureness = {};
  return alone;
}

}  // namespace stretto
