#include "tune/sureness.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tune/nearness.h"

namespace stretto {
namespace {

// Nine in ten choices were within these when all measurements of a model's width were left out
// (tests/tune/sureness_test.cpp). With few rows low-latency collectives lead by far or by little;
// with more, waves of tiles, power and caches decide, which neither neighbours nor the simulation
// know well.
constexpr double kClearLead = 0.08;
constexpr double kClear = 0.02, kFewAndClose = 0.08;
constexpr double kNear = 0.08, kNearGather = 0.18, kFarOrNothing = 0.25;

constexpr double kLeastSpread = 0.01, kMostSpread = 0.2;

auto way_of(const Schedule& schedule) {
  return std::tuple(schedule.granularity, schedule.mover, schedule.gemm, schedule.collectives);
}

}  // namespace

std::string to_string(const Sureness& sureness) {
  return fmt::format("sure within {:.0f} %", 100 * sureness.within);
}

Sureness sure_by_measurement(const Measured& measured) {
  const double spread = (measured.time_us - measured.low_us) / measured.time_us;
  return {Evidence::measured, std::clamp(spread, kLeastSpread, kMostSpread)};
}

Sureness sure_elsewhere(const Segment& op, double reach, double lead) {
  const Evidence by = reach <= kFar ? Evidence::near : Evidence::predicted;
  // A lead by simulation alone is no evidence.
  if (op.m < kFewRows && reach <= kFar) return {by, lead >= kClearLead ? kClear : kFewAndClose};
  const double near = op.makes_terms() ? kNear : kNearGather;
  return {by, reach <= kFar ? near : kFarOrNothing};
}

double lead_of(const Schedule& best, double best_us, const std::vector<Expectation>& all) {
  double next = 2 * best_us;
  for (const Expectation& one : all) {
    if (way_of(one.schedule) != way_of(best)) next = std::min(next, one.us);
  }
  return next / best_us - 1;
}

AutoSchedule with_sureness(AutoSchedule chosen, const Sureness& sureness) {
  chosen.reason += "; " + to_string(sureness);
  chosen.sureness = sureness;
  return chosen;
}

}  // namespace stretto
