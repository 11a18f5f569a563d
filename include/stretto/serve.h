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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/device/run_rows.h"
#include "stretto/plan.h"

namespace stretto {

// Whose rows there are: of ag-gemm and gemm-rs the ranks own them, of gemm-ar all are one owner's.
RowShards row_owners(const Operator& op);

// The run of `rows` rows of a plan for `op`. Throws UsageError when they are not 1 to op.m.
device::RunRows run_rows(const Operator& op, int64_t rows);

// What a task other than a deliver works on: rows [first, first + count) of an owner's own. Nothing
// where that cannot be said.
struct TaskRows {
  int32_t owner = 0, first = 0, count = 0;
  bool operator==(const TaskRows&) const = default;
};
std::optional<TaskRows> rows_of(const Plan& plan, const Instr& task);

// The same for many tasks of a plan, which must outlive this: what it asks of buffers is looked up.
class TaskRowFinder {
 public:
  explicit TaskRowFinder(const Plan& plan);
  std::optional<TaskRows> operator()(const Instr& task) const;
  // The same of one region, which is not one of B.
  std::optional<TaskRows> operator()(const Region& region) const;
  bool is_compact(uint16_t buffer) const { return held_[buffer].is_compact; }

 private:
  enum class Rows : uint8_t { others, of_rank, of_all };  // which ones a buffer has
  struct Held {
    Rows rows = Rows::others;
    int32_t count = 0;  // of_all
    bool is_compact = false;
  };

  int32_t owner_of(int32_t row) const;
  // `other`: the number of a region whose rows are no task's; -1: none.
  std::optional<TaskRows> find(std::span<const Region> regions, int other) const;

  const Plan* plan_;
  std::vector<Held> held_;  // by buffer
  int32_t rows_, block_;    // of all owners, of one
  double owners_by_row_;    // 1 / block_
};

// Is it the caller's, and holds the rows of all owners?
bool is_compact(const Plan& plan, uint16_t buffer);

// Why a run of the plan cannot have fewer rows; empty when it can.
std::vector<std::string> why_not_served(const Plan& plan);

// The run of `rows` rows as a plan of its own: of the operator with so many rows, without the tasks
// and regions that have none. `lines`, unless null, are the plan's and become the run's. Throws
// UsageError.
Plan at_rows(const Plan& plan, int64_t rows, PlanLines* lines = nullptr);

}  // namespace stretto
