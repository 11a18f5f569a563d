#include "tune/nearness.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {

namespace {

// Of the same kind and element size on the same machine: bf16 and fp16 run alike.
bool is_alike(const TunedOperator& tuned, const Segment& op, const Machine& machine) {
  return tuned.machine == machine.name && tuned.op.kind == op.kind &&
         num_bytes(tuned.op.dtype) == num_bytes(op.dtype);
}

// How near the GPU is that it was measured on.
int gpu_rank(const TunedOperator& tuned, const Machine& machine) {
  if (is_of_another_gpu(tuned, machine)) return 0;
  return tuned.gpu.empty() && !machine.gpu.empty() ? 1 : 2;
}

// One of each operator, however many GPUs it was measured on.
std::vector<const TunedOperator*> all_alike(const Segment& op, const Machine& machine,
                                            const Tuning& tuning) {
  std::vector<const TunedOperator*> found;
  for (const TunedOperator& tuned : tuning.operators()) {
    if (!is_alike(tuned, op, machine)) continue;
    const auto same = std::find_if(found.begin(), found.end(), [&](const TunedOperator* other) {
      return other->op == tuned.op;
    });
    if (same == found.end()) {
      found.push_back(&tuned);
    } else if (gpu_rank(tuned, machine) >= gpu_rank(**same, machine)) {
      *same = &tuned;
    }
  }
  return found;
}

void sort_by_reach(const Segment& op, const Machine& machine,
                   std::vector<const TunedOperator*>& found) {
  std::stable_sort(found.begin(), found.end(), [&](const TunedOperator* a, const TunedOperator* b) {
    const double to_a = reach(*a, op, machine), to_b = reach(*b, op, machine);
    if (to_a != to_b) return to_a < to_b;
    return a->op.dtype == op.dtype && b->op.dtype != op.dtype;
  });
}

}  // namespace

std::vector<const TunedOperator*> measured_on(const Segment& op, const Machine& machine,
                                              const Tuning& tuning) {
  std::vector<const TunedOperator*> found = all_alike(op, machine, tuning);
  std::erase_if(found, [&](const TunedOperator* tuned) { return reach(*tuned, op, machine) > 0; });
  sort_by_reach(op, machine, found);
  return found;
}

std::vector<const TunedOperator*> speaking_for(const Segment& op, const Machine& machine,
                                               const Tuning& tuning) {
  std::vector<const TunedOperator*> found = all_alike(op, machine, tuning);
  std::erase_if(found, [&](const TunedOperator* tuned) {
    const bool is_inside = std::min(tuned->op.ranks, op.ranks) > 1 &&
                           std::max(tuned->op.ranks, op.ranks) <= machine.ranks_per_node;
    const bool says_something = tuned->op.ranks == op.ranks || is_inside;
    return !says_something || reach(*tuned, op, machine) > kSilent;
  });
  sort_by_reach(op, machine, found);
  return found;
}

std::string where_measured(const TunedOperator& tuned, const Machine& machine) {
  const Segment& op = tuned.op;
  const std::string where = fmt::format("m={} n={} k={} with {} ranks", op.m, op.n, op.k, op.ranks);
  if (!is_of_another_gpu(tuned, machine)) return where;
  return fmt::format("{} on another GPU, {}", where, quote(tuned.gpu, 200));
}

void require_some_serve(bool by_some) {
  if (by_some) return;
  throw UsageError("nothing serves this with rows that stand in GPU memory: say them to each run");
}

std::optional<Schedule> library_for(const Segment& op, const Machine& machine) {
  Schedule library = find_preset("library").make(op, machine);
  if (!legal(op, library, machine).empty()) return std::nullopt;
  return library;
}

}  // namespace stretto
