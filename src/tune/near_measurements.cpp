#include "tune/near_measurements.h"

#include <algorithm>

#include "tune/nearness.h"
#include "tune/predict.h"

namespace stretto {
namespace {

// Elsewhere what was somewhat slower may be the fastest: waves are otherwise full, and with other
// ranks a link carries other shares of the data.
constexpr double kTooSlow = 1.4;
constexpr size_t kMost = 12;
// Fewer are no choice: whoever measured them was after something else.
constexpr size_t kFewest = 2;

bool by_nccl(const Schedule& schedule) {
  return schedule.mover == Mover::nccl && schedule.collectives == CollectivesBy::nccl;
}

}  // namespace

std::optional<MeasuredNearby> measured_nearby(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows, RowsFrom from) {
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
    MeasuredNearby found{tuned, {}, {}};
    std::vector<Schedule> schedules_there;
    const bool has_as_many = tuned->op.ranks == op.ranks;
    for (const Measured& measured : tuned->measured) {
      if (!found.factors.empty() && measured.time_us > kTooSlow * found.factors.front()) break;
      const Schedule schedule_there = parse_schedule(measured.schedule, tuned->op, machine);
      const auto schedule = as_measured(*tuned, measured, op, machine, rows, from);
      if (!schedule || !legal(tuned->op, schedule_there, machine).empty()) continue;
      if (!has_as_many && by_nccl(*schedule)) continue;
      found.schedules.push_back(*schedule);
      schedules_there.push_back(schedule_there);
      found.factors.push_back(measured.time_us);
      if (found.schedules.size() == kMost) break;
    }
    if (found.schedules.size() < kFewest) continue;
    const auto library = library_for(op, machine, rows);
    const auto library_there = library_for(tuned->op, machine, rows);
    const std::vector<Schedule>& known = found.schedules;
    if (library && library_there && has_as_many && tuned->library_us > 0 &&
        std::find(known.begin(), known.end(), *library) == known.end()) {
      found.schedules.push_back(*library);
      schedules_there.push_back(*library_there);
      found.factors.push_back(tuned->library_us);
    }
    const std::vector<double> predicted = predicted_us(tuned->op, schedules_there, machine);
    for (size_t i = 0; i < predicted.size(); ++i) found.factors[i] /= predicted[i];
    return found;
  }
  return std::nullopt;
}

void add_low_latency(const Operator& op, const Machine& machine, const Tuning& tuning,
                     RowCount rows, RowsFrom from, MeasuredNearby& nearby) {
  const auto is_low_latency = [](const Schedule& schedule) {
    return schedule.collectives == CollectivesBy::low_latency;
  };
  if (std::any_of(nearby.schedules.begin(), nearby.schedules.end(), is_low_latency)) return;
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
    for (const Measured& measured : tuned->measured) {
      const auto schedule = as_measured(*tuned, measured, op, machine, rows, from);
      if (!schedule || !is_low_latency(*schedule)) continue;
      const Schedule there = parse_schedule(measured.schedule, tuned->op, machine);
      if (!legal(tuned->op, there, machine).empty()) continue;
      nearby.schedules.push_back(*schedule);
      nearby.factors.push_back(measured.time_us / predicted_us(tuned->op, {there}, machine)[0]);
      return;
    }
  }
}

}  // namespace stretto
