#include "tune/other_ranks.h"

#include <algorithm>
#include <cmath>

#include "stretto/error.h"
#include "tune/nearness.h"
#include "tune/predict.h"

namespace stretto {
namespace {

// With other ranks a link carries other shares of the data, so what was somewhat slower may be the
// fastest.
constexpr double kTooSlow = 1.4;
constexpr size_t kMost = 12;
// Fewer are no choice: whoever measured them was after something else.
constexpr size_t kFewest = 2;

// How far apart what a GPU multiplies is; the nearer number of ranks decides between equals.
double local_distance(const Operator& a, const Operator& b) {
  return apart(a.m, b.m) + apart(a.local_n(), b.local_n()) + apart(a.local_k(), b.local_k());
}

std::vector<const TunedOperator*> nearest_first(const Operator& op, const Machine& machine,
                                                const Tuning& tuning) {
  std::vector<const TunedOperator*> found;
  for (const TunedOperator& tuned : tuning.operators()) {
    const bool is_alike = tuned.machine == machine.name && tuned.op.kind == op.kind &&
                          num_bytes(tuned.op.dtype) == num_bytes(op.dtype) && tuned.op.ranks > 1 &&
                          tuned.op.ranks <= machine.ranks_per_node && tuned.op.ranks != op.ranks;
    if (is_alike && local_distance(tuned.op, op) <= kFar) found.push_back(&tuned);
  }
  std::stable_sort(found.begin(), found.end(), [&](const TunedOperator* a, const TunedOperator* b) {
    const double to_a = local_distance(a->op, op), to_b = local_distance(b->op, op);
    return to_a != to_b ? to_a < to_b : apart(a->op.ranks, op.ranks) < apart(b->op.ranks, op.ranks);
  });
  return found;
}

}  // namespace

std::optional<MeasuredElsewhere> measured_with_other_ranks(const Operator& op,
                                                           const Machine& machine,
                                                           const Tuning& tuning, RowCount rows) {
  // Across nodes other schedules are fast than inside one.
  if (op.ranks == 1 || op.ranks > machine.ranks_per_node) return std::nullopt;
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
    MeasuredElsewhere found{tuned, {}, {}};
    std::vector<Schedule> schedules_there;
    for (const Measured& measured : tuned->measured) {
      if (measured.time_us > kTooSlow * tuned->measured.front().time_us) break;
      const Schedule schedule_there = parse_schedule(measured.schedule, tuned->op, machine);
      const auto schedule = as_measured(measured, op, machine, rows);
      if (!schedule || !legal(tuned->op, schedule_there, machine).empty()) continue;
      found.schedules.push_back(*schedule);
      schedules_there.push_back(schedule_there);
      found.factors.push_back(measured.time_us);
      if (found.schedules.size() == kMost) break;
    }
    if (found.schedules.size() < kFewest) continue;
    const std::vector<double> predicted = predicted_us(tuned->op, schedules_there, machine);
    for (size_t i = 0; i < predicted.size(); ++i) found.factors[i] /= predicted[i];
    return found;
  }
  return std::nullopt;
}

}  // namespace stretto
