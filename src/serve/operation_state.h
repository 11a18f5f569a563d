// What an operation holds: a plan for each bucket of rows, made when it is first asked for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "run/plan_runner.h"
#include "serve/context_state.h"
#include "serve/operation_workspace.h"
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
    OperatorSchedule chosen;  // of_host's, as it was asked for
    bool is_settled = false;  // measuring would tell no more
    uint64_t runs = 0;        // of this process's first rank

    Planned& for_rows(const runtime::RowsOfCall& rows);
  };

  State(Context::State& of, const Operator& asked, const OperationOptions& with);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool is_fixed() const { return options.rows == RowCount::fixed; }
  void require_rows(int64_t rows) const;
  // Of the plan that serves so many rows.
  int64_t bucket_rows(int64_t rows) const;
  // Makes it where it is not there; inside a call it measures nothing.
  enum class Made : uint8_t { ahead, inside_a_call };
  Bucket& bucket_for(int64_t rows, Made when);
  // Throws UsageError when it is not there.
  const Bucket& made(int64_t rows) const;
  // Those that graphs may still hold, too.
  void for_each_runner(const std::function<void(runtime::PlanRunner&)>& visit) const;

  void run(int rank, GpuStream stream, int64_t most, const runtime::RowsOfCall& rows,
           std::span<const CallTensor> tensors);
  // Of all buckets: nobody knows which graphs were launched. The first that ended badly is told.
  void finish();
  std::string error() const;
  // Collective: Operation::learn().
  int learn(double budget_ms);

  Context::State& context;
  int64_t max_rows;
  Operator op;  // with as many rows as the largest bucket
  OperationOptions options;
  std::vector<std::unique_ptr<OperationWorkspace>> old_workspaces;  // of old buckets
  std::unique_ptr<OperationWorkspace> own_workspace;  // where the context has none for all
  OperationWorkspace* workspace;
  std::map<int64_t, std::unique_ptr<Bucket>> buckets;
  std::vector<std::unique_ptr<Bucket>> old_buckets;  // which graphs of the caller's may hold
  uint64_t told_failures;                            // of the workspace's fences
  uint64_t gone_bad_ids = 0, gone_copied_bytes = 0;  // of buckets that are no more

 private:
  Bucket& make_bucket(int64_t rows, Made when);
  std::unique_ptr<Bucket> bucket_with(const AutoSchedules& chosen, int64_t rows);
  void make(Planned& made, const Operator& planned, AutoSchedules chosen, bool rows_in_memory);
  AutoSchedules schedule_for(const Operator& planned, RowsFrom from, double budget_ms) const;
  // Where rows in GPU memory want another schedule than those that the host says.
  std::optional<AutoSchedules> other_for_memory(const Operator& planned,
                                                const AutoSchedules& chosen) const;
  // Of learn() (operation_learn.cpp).
  struct Next;
  Next next_to_learn(double left_ms) const;
  void require_that_all_may_learn(double budget_ms) const;
  void learn_bucket(int64_t rows, double budget_ms);
  bool replace(int64_t rows, const AutoSchedules& chosen, std::string& problem);
};

}  // namespace stretto
