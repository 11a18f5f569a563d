// Single changes to a plan that take away synchronisation it needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/lower.h"
#include "stretto/plan.h"

namespace stretto {

enum class MutationKind : uint8_t { delete_wait, delete_notify, lower_threshold, swap_with_next };

struct Mutation {
  MutationKind kind = MutationKind::delete_wait;
  InstrRef at;
};

// All deletions of waits and notifies, all thresholds lowered by one, and all swaps of adjacent
// instructions of which the second depends on the first:
//   a wait, and the task or collective behind it;
//   a task or collective, and the notify behind it;
//   two tasks of which one writes what the other touches; two collectives; two boundaries;
//   a boundary and any neighbour, when two tasks that must keep their order would lose it. (A
//   boundary orders what is before it in one lane with what is behind it in another, so it depends
//   on the rest of the plan which swaps matter.)
// `with_boundaries`: the last kind too; it takes time with large plans.
std::vector<Mutation> mutations_of(const Plan& plan, bool with_boundaries = true);

void apply(Plan& plan, const Mutation& mutation);
// "delete wait: rank 0 comm 1 instruction 4 (wait slots.0 >= 1)", of the plan before the change.
std::string describe(const Plan& plan, const Mutation& mutation);

}  // namespace stretto
