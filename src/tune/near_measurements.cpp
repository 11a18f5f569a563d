#include "tune/near_measurements.h"

#include <algorithm>

#include "stretto/error.h"
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

// With as many ranks first. Across nodes other schedules are fast than inside one.
std::vector<const TunedOperator*> nearest_first(const Operator& op, const Machine& machine,
                                                const Tuning& tuning) {
  std::vector<const TunedOperator*> found;
  for (const TunedOperator& tuned : tuning.operators()) {
    const bool is_alike = tuned.machine == machine.name && tuned.op.kind == op.kind &&
                          num_bytes(tuned.op.dtype) == num_bytes(op.dtype);
    const bool is_inside = std::min(tuned.op.ranks, op.ranks) > 1 &&
                           std::max(tuned.op.ranks, op.ranks) <= machine.ranks_per_node;
    if (!is_alike || (tuned.op.ranks != op.ranks && !is_inside)) continue;
    if (distance(tuned.op, op) <= kFar) found.push_back(&tuned);
  }
  std::stable_sort(found.begin(), found.end(), [&](const TunedOperator* a, const TunedOperator* b) {
    const bool a_has = a->op.ranks == op.ranks, b_has = b->op.ranks == op.ranks;
    if (a_has != b_has) return a_has;
    const double to_a = distance(a->op, op), to_b = distance(b->op, op);
    return to_a != to_b ? to_a < to_b : apart(a->op.ranks, op.ranks) < apart(b->op.ranks, op.ranks);
  });
  return found;
}

// cuBLAS, then NCCL: measured beside every operator.
std::optional<Schedule> library_for(const Operator& op, const Machine& machine, RowCount rows) {
  Schedule library = find_preset("library").make(op, machine);
  library.rows = rows;
  if (!legal(op, library, machine).empty()) return std::nullopt;
  return library;
}

}  // namespace

std::optional<MeasuredNearby> measured_nearby(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows) {
  for (const TunedOperator* tuned : nearest_first(op, machine, tuning)) {
    MeasuredNearby found{tuned, {}, {}};
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
    // NCCL's latency is another with other ranks.
    const auto library = library_for(op, machine, rows);
    const auto library_there = library_for(tuned->op, machine, rows);
    const std::vector<Schedule>& known = found.schedules;
    if (library && library_there && tuned->op.ranks == op.ranks && tuned->library_us > 0 &&
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

}  // namespace stretto
