#include <fmt/format.h>

#include "stretto/tune.h"
#include "tune/expected_schedule.h"
#include "tune/nearness.h"

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

}  // namespace

AutoSchedule simulated_schedule(const Operator& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, RowsFrom from) {
  Predictions predictions(machine);
  return expected_schedule(op, machine, tuning, rows, from, predictions);
}

std::optional<AutoSchedule> measured_schedule(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows, RowsFrom from) {
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
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
  if (!near.empty() && distance(near[0]->op, op) == 0) {
    if (const auto library = library_of(*near[0], op, machine, rows)) return *library;
    if (const auto measured = measured_schedule(op, machine, tuning, rows)) return *measured;
  }
  return simulated_schedule(op, machine, tuning, rows);
}

}  // namespace stretto
