#include "tune/nearness.h"

#include <algorithm>

#include "stretto/schedule.h"

namespace stretto {

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
    if (to_a != to_b) return to_a < to_b;
    const double ranks_to_a = apart(a->op.ranks, op.ranks),
                 ranks_to_b = apart(b->op.ranks, op.ranks);
    if (ranks_to_a != ranks_to_b) return ranks_to_a < ranks_to_b;
    return a->op.dtype == op.dtype && b->op.dtype != op.dtype;
  });
  return found;
}

std::optional<Schedule> library_for(const Operator& op, const Machine& machine, RowCount rows) {
  Schedule library = find_preset("library").make(op, machine);
  library.rows = rows;
  if (!legal(op, library, machine).empty()) return std::nullopt;
  return library;
}

}  // namespace stretto
