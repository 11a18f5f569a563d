#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/near_measurements.h"
#include "tune/nearness.h"
#include "tune/predict.h"
#include "tune/sweep.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

std::string reason_of(const TunedOperator& tuned, const Measured& measured, const Operator& op) {
  const bool is_fastest = &measured == &tuned.measured.front();
  const std::string fastest = is_fastest ? "the fastest" : "the fastest that can serve this";
  const std::string speed = fmt::format("{:.1f} us, {:.2f}x cuBLAS and NCCL", measured.time_us,
                                        tuned.library_us / measured.time_us);
  if (distance(tuned.op, op) == 0) {
    return fmt::format("{} of {} measured on this shape: {}", fastest, tuned.measured.size(),
                       speed);
  }
  return fmt::format("{} of {} measured on the nearest shape, m={} n={} k={}: {} there", fastest,
                     tuned.measured.size(), tuned.op.m, tuned.op.n, tuned.op.k, speed);
}

size_t least(const std::vector<double>& values) {
  return static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

AutoSchedule fastest_usual(const Operator& op, const Machine& machine, RowCount rows,
                           RowsFrom from = RowsFrom::host) {
  std::vector<Schedule> schedules = usual_schedules(op, machine, rows);
  std::erase_if(schedules, [&](const Schedule& one) { return !serves_from(one, from); });
  if (schedules.empty()) {
    throw UsageError(
        "nothing serves this with rows that stand in GPU memory: say them to each run");
  }
  const std::vector<double> predicted = predicted_us(op, schedules, machine);
  const size_t best = least(predicted);
  return {schedules[best],
          fmt::format("the fastest of {} by simulation, {:.1f} us: nothing like it was measured on "
                      "{} with {} ranks (stretto tune measures it)",
                      schedules.size(), predicted[best], machine.name, op.ranks)};
}

// Where cuBLAS, then NCCL, was faster on this operator than all that can serve it.
std::optional<AutoSchedule> library_of(const TunedOperator& tuned, const Operator& op,
                                       const Machine& machine, RowCount rows) {
  const auto library = library_for(op, machine, rows);
  if (!library || tuned.library_us <= 0) return std::nullopt;
  for (const Measured& measured : tuned.measured) {
    if (measured.time_us > tuned.library_us) break;
    if (as_measured(tuned, measured, op, machine, rows)) return std::nullopt;
  }
  return AutoSchedule{*library,
                      fmt::format("cuBLAS and NCCL took {:.1f} us on this shape, less than "
                                  "what can serve of the {} schedules measured",
                                  tuned.library_us, tuned.measured.size())};
}

// The fused preset fits its tiles to the operator. Taken to be as far off as the worst.
void add_fused(const Operator& op, const Machine& machine, RowCount rows, MeasuredNearby& nearby) {
  Schedule fused = fused_tiles(op, machine);
  fused.rows = rows;
  const std::vector<Schedule>& known = nearby.schedules;
  if (std::find(known.begin(), known.end(), fused) != known.end()) return;
  if (!legal(op, fused, machine).empty()) return;
  nearby.schedules.push_back(fused);
  nearby.factors.push_back(*std::max_element(nearby.factors.begin(), nearby.factors.end()));
}

// By what was measured nearby, each schedule at its simulated time times how far off that was
// there.
std::optional<AutoSchedule> corrected(const Operator& op, const Machine& machine,
                                      const Tuning& tuning, RowCount rows,
                                      RowsFrom from = RowsFrom::host) {
  auto nearby = measured_nearby(op, machine, tuning, rows, from);
  if (!nearby) return std::nullopt;
  add_low_latency(op, machine, tuning, rows, from, *nearby);
  add_fused(op, machine, rows, *nearby);
  std::vector<double> expected = predicted_us(op, nearby->schedules, machine);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] *= nearby->factors[i];
  const size_t best = least(expected);
  const Operator& there = nearby->where->op;
  const std::string where =
      there.ranks == op.ranks ? "on" : fmt::format("with {} ranks,", there.ranks);
  return AutoSchedule{
      nearby->schedules[best],
      fmt::format("of {} measured {} m={} n={} k={}, the fastest by simulation corrected there, "
                  "{:.1f} us (stretto tune measures it)",
                  expected.size(), where, there.m, there.n, there.k, expected[best])};
}

}  // namespace

AutoSchedule simulated_schedule(const Operator& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, RowsFrom from) {
  const auto found = corrected(op, machine, tuning, rows, from);
  return found ? *found : fastest_usual(op, machine, rows, from);
}

std::optional<AutoSchedule> measured_schedule(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows, RowsFrom from) {
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
    if (tuned->op.ranks != op.ranks) break;
    for (const Measured& measured : tuned->measured) {
      const auto schedule = as_measured(*tuned, measured, op, machine, rows, from);
      if (schedule) return AutoSchedule{*schedule, reason_of(*tuned, measured, op)};
    }
  }
  return std::nullopt;
}

AutoSchedule auto_schedule(const Operator& op, const Machine& machine, const Tuning& tuning,
                           RowCount rows) {
  const auto near = nearest_first(op, machine, tuning);
  if (!near.empty() && near[0]->op.ranks == op.ranks && distance(near[0]->op, op) == 0) {
    if (const auto library = library_of(*near[0], op, machine, rows)) return *library;
    const auto measured = measured_schedule(op, machine, tuning, rows);
    return measured ? *measured : simulated_schedule(op, machine, tuning, rows);
  }
  if (const auto found = corrected(op, machine, tuning, rows)) return *found;
  const auto measured = measured_schedule(op, machine, tuning, rows);
  return measured ? *measured : fastest_usual(op, machine, rows);
}

}  // namespace stretto
