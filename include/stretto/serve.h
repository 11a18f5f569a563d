// Serving: a plan also computes its operator with fewer rows, so one plan serves all row counts up
// to its own: its bucket.
//
// A run of fewer rows does the plan's tasks on those rows that it has, and makes all waits and
// notifies. Accesses only shrink and move without meeting, so what the checker proved of the plan
// holds for every run. device/run_rows.h says where rows lie.
//
// It needs equal shards, and tasks that work on rows of one owner each: schedules with rows=bucket
// have them, others where tiles end with the owners.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/device/run_rows.h"
#include "stretto/plan.h"
#include "stretto/task_rows.h"

namespace stretto {

// The run of `rows` rows of a plan for `op`. Throws UsageError when they are not 1 to op.m.
device::RunRows run_rows(const Operator& op, int64_t rows);

// Why no plan of the operator has runs of fewer rows, whatever its schedule: they would be of other
// tensors. Empty: some may.
std::string why_rows_are_fixed(const Operator& op);

// Why a run of the plan cannot have fewer rows; empty when it can.
std::vector<std::string> why_not_served(const Plan& plan);

// Why the plan, which says that it is a run of fewer rows (Plan::run_of), cannot be one; empty: it
// may be.
std::string why_no_run(const Plan& plan);

// The run of `rows` rows written out as a plan: of the operator with so many rows, without the
// tasks and regions that have none, and with the mark `run_of` where that are fewer rows than the
// plan's. What ranks enqueue for it is still the whole plan's program. `lines`, unless null, are
// the plan's and become the run's. Throws UsageError.
Plan at_rows(const Plan& plan, int64_t rows, PlanLines* lines = nullptr);

}  // namespace stretto
