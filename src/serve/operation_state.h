// What an operation holds: its tensors, and a plan for each bucket of rows, made when it is first
// asked for.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "run/plan_runner.h"
#include "serve/context_state.h"
#include "serve/operation_tensors.h"
#include "stretto/tune.h"

namespace stretto {

struct Operation::State {
  // A plan and what runs it.
  struct Planned {
    Plan plan;
    std::unique_ptr<runtime::PlanRunner> runner;
    std::string schedule, reason;
  };
  // For rows that the host says; and for those that stand in GPU memory, where another is faster.
  struct Bucket {
    Planned of_host, of_memory;
    std::string why_not_of_memory;

    Planned& for_rows(const runtime::CallRows& rows);
  };

  State(Context::State& of, const OperationShape& shape, int64_t most,
        const OperationOptions& with);

  bool is_fixed() const { return options.rows == RowCount::fixed; }
  void require_rows(int64_t rows) const;
  // Of the plan that serves so many rows.
  int64_t bucket_rows(int64_t rows) const;
  Bucket& bucket_for(int64_t rows);
  // Throws UsageError when it is not there.
  const Bucket& made(int64_t rows) const;

  void run(int rank, GpuStream stream, int64_t most, const runtime::CallRows& rows);
  // Of all buckets: nobody knows which graphs were launched. The first that ended badly is told.
  void finish();

  Context::State& context;
  int64_t max_rows;
  Segment op;  // with as many rows as tensors have room for
  OperationOptions options;
  runtime::OperationTensors tensors;
  std::map<int64_t, std::unique_ptr<Bucket>> buckets;

 private:
  Bucket& make_bucket(int64_t rows);
  void make(Planned& made, const Segment& planned, AutoSchedule chosen, bool rows_in_memory);
  AutoSchedule schedule_for(const Segment& planned, RowsFrom from) const;
  // Where rows in GPU memory want another schedule than those that the host says.
  std::optional<AutoSchedule> other_for_memory(const Segment& planned,
                                               const AutoSchedule& chosen) const;
};

}  // namespace stretto
