#include <fmt/format.h>

#include "stretto/tune.h"
#include "tune/expected_schedule.h"
#include "tune/nearness.h"
#include "tune/sureness.h"

namespace stretto {
namespace {

std::string reason_of(const TunedOperator& tuned, const Measured& measured) {
  const bool is_fastest = &measured == &tuned.measured.front();
  return fmt::format("{} of {} measured on this shape: {:.1f} us{}",
                     is_fastest ? "the fastest" : "the fastest that can serve this",
                     tuned.measured.size(), measured.time_us,
                     tuned.library_us > 0 ? fmt::format(", {:.2f}x cuBLAS and NCCL",
                                                        tuned.library_us / measured.time_us)
                                          : "");
}

// Where cuBLAS, then NCCL, was faster on this operator than all that can serve it.
std::optional<AutoSchedule> library_of(const TunedOperator& tuned, const Segment& op,
                                       const Machine& machine) {
  const auto library = library_for(op, machine);
  if (!library || tuned.library_us <= 0) return std::nullopt;
  for (const Measured& measured : tuned.measured) {
    if (measured.time_us > tuned.library_us) break;
    if (as_measured(tuned, measured, op, machine, RowCount::fixed)) return std::nullopt;
  }
  return with_sureness(
      {*library, fmt::format("cuBLAS and NCCL took {:.1f} us on this shape, less than "
                             "what can serve of the {} schedules measured",
                             tuned.library_us, tuned.measured.size())},
      sure_by_measurement(tuned.measured.front()));
}

}  // namespace

AutoSchedule simulated_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, RowsFrom from) {
  Predictions predictions(machine);
  return expected_schedule(op, machine, tuning, rows, from, predictions);
}

std::optional<AutoSchedule> measured_schedule(const Segment& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows, RowsFrom from) {
  for (const TunedOperator* tuned : measured_on(op, machine, tuning)) {
    std::optional<AutoSchedule> fastest;
    double fastest_us = 0;
    for (const Measured& measured : tuned->measured) {
      if (fastest && measured.time_us >= fastest_us) break;
      const auto schedule = as_measured(*tuned, measured, op, machine, rows, from);
      if (!schedule) continue;
      const double us = measured.time_us + us_beyond_measured(*schedule, op, machine, from);
      if (fastest && us >= fastest_us) continue;
      fastest =
          with_sureness({*schedule, reason_of(*tuned, measured)}, sure_by_measurement(measured));
      fastest_us = us;
    }
    if (fastest) return fastest;
  }
  return std::nullopt;
}

AutoSchedule auto_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                           RowCount rows) {
  if (rows == RowCount::bucket) return served_schedule(op, machine, tuning);
  Predictions predictions(machine);
  return auto_schedule(op, machine, tuning, predictions);
}

AutoSchedule auto_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                           Predictions& predictions) {
  const auto measured_here = measured_on(op, machine, tuning);
  if (!measured_here.empty()) {
    if (const auto library = library_of(*measured_here[0], op, machine)) return *library;
    if (const auto measured = measured_schedule(op, machine, tuning)) return *measured;
  }
  return expected_schedule(op, machine, tuning, RowCount::fixed, RowsFrom::host, predictions);
}

}  // namespace stretto
