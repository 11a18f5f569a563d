#include "tune/nearness.h"

#include <algorithm>

#include "stretto/schedule.h"

namespace stretto {

namespace {

// Of the same kind and element size on the same machine: bf16 and fp16 run alike.
bool is_alike(const TunedOperator& tuned, const Operator& op, const Machine& machine) {
  return tuned.machine == machine.name && tuned.op.kind == op.kind &&
         num_bytes(tuned.op.dtype) == num_bytes(op.dtype);
}

template <typename Far>
void sort_by(const Far& far, const Operator& op, std::vector<const TunedOperator*>& found) {
  std::stable_sort(found.begin(), found.end(), [&](const TunedOperator* a, const TunedOperator* b) {
    const double to_a = far(a->op, op), to_b = far(b->op, op);
    if (to_a != to_b) return to_a < to_b;
    return a->op.dtype == op.dtype && b->op.dtype != op.dtype;
  });
}

}  // namespace

std::vector<const TunedOperator*> nearest_first(const Operator& op, const Machine& machine,
                                                const Tuning& tuning) {
  std::vector<const TunedOperator*> found;
  for (const TunedOperator& tuned : tuning.operators()) {
    if (!is_alike(tuned, op, machine) || tuned.op.ranks != op.ranks) continue;
    if (distance(tuned.op, op) <= kFar) found.push_back(&tuned);
  }
  sort_by(distance, op, found);
  return found;
}

std::vector<const TunedOperator*> speaking_for(const Operator& op, const Machine& machine,
                                               const Tuning& tuning) {
  std::vector<const TunedOperator*> found;
  for (const TunedOperator& tuned : tuning.operators()) {
    const bool is_inside = std::min(tuned.op.ranks, op.ranks) > 1 &&
                           std::max(tuned.op.ranks, op.ranks) <= machine.ranks_per_node;
    if (!is_alike(tuned, op, machine) || (tuned.op.ranks != op.ranks && !is_inside)) continue;
    if (reach(tuned.op, op) <= kSilent) found.push_back(&tuned);
  }
  sort_by(reach, op, found);
  return found;
}

std::optional<Schedule> library_for(const Operator& op, const Machine& machine, RowCount rows) {
  Schedule library = find_preset("library").make(op, machine);
  library.rows = rows;
  if (!legal(op, library, machine).empty()) return std::nullopt;
  return library;
}

}  // namespace stretto
