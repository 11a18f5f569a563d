#include <fmt/format.h>

#include <map>
#include <optional>

#include "runtime/context_state.h"
#include "runtime/operation_tensors.h"
#include "runtime/plan_runner.h"
#include "stretto/buckets.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

Operator largest(const OperationShape& shape, int64_t max_rows, int ranks, RowCount rows) {
  if (max_rows < 1 || max_rows > kMaxDim) {
    throw UsageError(
        fmt::format("an operation of up to {} rows; it has 1 to {}", max_rows, kMaxDim));
  }
  const int64_t m = rows == RowCount::fixed ? max_rows : bucket_of(shape.kind, ranks, max_rows);
  Operator op{shape.kind, m, shape.n, shape.k, ranks, shape.dtype};
  validate(op);
  return op;
}

}  // namespace

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
    Planned& for_rows(const runtime::CallRows& rows) {
      if (rows.at != 0 && !why_not_of_memory.empty()) {
        throw UsageError("rows that stand in GPU memory: " + why_not_of_memory);
      }
      return rows.at != 0 && of_memory.runner ? of_memory : of_host;
    }
  };

  State(Context::State& of, const OperationShape& shape, int64_t most, const OperationOptions& with)
      : context(of),
        max_rows(most),
        op(largest(shape, most, of.fabric->ranks(), with.rows)),
        options(with),
        tensors(runtime::place_tensors(*of.fabric, op, with.tensors)) {}

  bool is_fixed() const { return options.rows == RowCount::fixed; }

  void require_rows(int64_t rows) const {
    if (is_fixed() && rows != max_rows) {
      throw UsageError(
          fmt::format("{} rows; this operation was made for {}, no more and no fewer: one with "
                      "rows=bucket serves any",
                      rows, max_rows));
    }
    if (rows >= 1 && rows <= max_rows) return;
    throw UsageError(fmt::format("{} rows; this operation serves 1 to {}", rows, max_rows));
  }

  // Of the plan that serves so many rows.
  int64_t bucket_rows(int64_t rows) const {
    return is_fixed() ? max_rows : bucket_of(op.kind, op.ranks, rows);
  }

  Bucket& bucket_for(int64_t rows) {
    require_rows(rows);
    const int64_t size = bucket_rows(rows);
    const auto found = buckets.find(size);
    return found != buckets.end() ? *found->second : make_bucket(size);
  }

  const Bucket& made(int64_t rows) const {
    require_rows(rows);
    const auto found = buckets.find(bucket_rows(rows));
    if (found == buckets.end()) {
      throw UsageError(fmt::format("no plan serves {} rows yet: prepare({}) makes it", rows, rows));
    }
    return *found->second;
  }

  Bucket& make_bucket(int64_t rows) {
    Operator planned = op;
    planned.m = rows;
    auto bucket = std::make_unique<Bucket>();
    const AutoSchedule chosen = schedule_for(planned, RowsFrom::host);
    std::optional<AutoSchedule> other;
    try {
      other = other_for_memory(planned, chosen);
    } catch (const UsageError& error) {
      bucket->why_not_of_memory = error.what();
    }
    context.fabric->group().require_same(
        "a plan for rows in GPU memory, which auto makes by each process's own tuning file",
        other ? to_string(other->schedule) : bucket->why_not_of_memory);
    const bool serves_both = !is_fixed() && !other && bucket->why_not_of_memory.empty();
    make(bucket->of_host, planned, chosen, serves_both);
    if (other) {
      try {
        make(bucket->of_memory, planned, *other, true);
      } catch (const UsageError& error) {  // on all processes or none: HostGroup::together()
        bucket->why_not_of_memory = error.what();
        bucket->of_memory = {};
      }
    }
    return *(buckets[rows] = std::move(bucket));
  }

  void make(Planned& made, const Operator& planned, AutoSchedule chosen, bool rows_in_memory) {
    made.plan = lower(planned, chosen.schedule, context.machine);
    runtime::RunnerOptions how;
    how.timeout_ns = context.timeout_ns;
    how.serves = !is_fixed();
    how.rows_in_memory = rows_in_memory;
    if (options.schedule == "auto") how.if_not_proposed = IfNotProposed::take_first;
    made.runner = std::make_unique<runtime::PlanRunner>(made.plan, *context.fabric, context.kernels,
                                                        how, tensors.bindings());
    if (const auto proposed = made.runner->too_few_proposed()) {
      chosen = with_first_algorithm(std::move(chosen), *proposed);
    }
    made.schedule = to_string(chosen.schedule);
    made.reason = std::move(chosen.reason);
  }

  // Buckets are made inside calls, so nothing is simulated for them.
  AutoSchedule schedule_for(const Operator& planned, RowsFrom from) const {
    const Machine& machine = context.machine;
    if (options.schedule != "auto") {
      Schedule schedule = parse_schedule(options.schedule, planned, machine, kAutoWords);
      schedule.rows = options.rows;
      return {schedule, {}};
    }
    if (is_fixed()) return auto_schedule(planned, machine, context.tuning);
    return served_schedule(planned, machine, context.tuning, from);
  }

  // Where rows in GPU memory want another schedule than those that the host says.
  std::optional<AutoSchedule> other_for_memory(const Operator& planned,
                                               const AutoSchedule& chosen) const {
    if (is_fixed() || options.schedule != "auto" || chosen.schedule.gemm == GemmBy::tiles) {
      return std::nullopt;
    }
    AutoSchedule other = schedule_for(planned, RowsFrom::gpu_memory);
    if (other.schedule == chosen.schedule) return std::nullopt;
    return other;
  }

  void run(int rank, GpuStream stream, int64_t most, const runtime::CallRows& rows) {
    if (is_fixed() && rows.at != 0) {
      throw UsageError("rows that stand in GPU memory: this operation's are fixed");
    }
    const cuda::Device& device = context.device(rank);
    Bucket& bucket = bucket_for(most);
    device.make_current();
    bucket.for_rows(rows).runner->enqueue(rank, static_cast<cuda::StreamHandle>(stream),
                                          is_fixed() ? runtime::CallRows{} : rows);
  }

  // Of all buckets: nobody knows which graphs were launched. The first that ended badly is told.
  void finish() {
    std::string problem;
    for (auto& [rows, bucket] : buckets) {
      for (Planned* planned : {&bucket->of_host, &bucket->of_memory}) {
        if (!planned->runner) continue;
        try {
          planned->runner->finish();
        } catch (const SystemError& error) {
          if (!planned->runner->has_met()) throw;  // nor would the others
          if (problem.empty()) problem = error.what();
        }
      }
    }
    if (!problem.empty()) throw SystemError(problem);
  }

  Context::State& context;
  int64_t max_rows;
  Operator op;  // with as many rows as tensors have room for
  OperationOptions options;
  runtime::OperationTensors tensors;
  std::map<int64_t, std::unique_ptr<Bucket>> buckets;
};

Operation::Operation(Context& context, const OperationShape& shape, int64_t max_rows,
                     const OperationOptions& options)
    : state_(std::make_unique<State>(*context.state_, shape, max_rows, options)) {
  prepare(max_rows);
  // Few rows are often served by other kernels, or libraries, which take long to load.
  if (options.rows == RowCount::bucket) {
    try {
      prepare(1);
    } catch (const UsageError&) {
      // The schedule may be one of many rows only; a run of few says so. All processes go on alike:
      // HostGroup::together().
    }
  }
}

Operation::~Operation() {
  try {
    finish();
  } catch (const std::exception&) {
    // Nobody asks for the results any more.
  }
}

Operator Operation::at(int64_t rows) const {
  state_->require_rows(rows);
  Operator op = state_->op;
  op.m = rows;
  return op;
}

int64_t Operation::room() const { return state_->op.m; }
GpuAddress Operation::a(int rank) const {
  return state_->tensors.a.addresses[state_->context.local(rank)];
}
GpuAddress Operation::b(int rank) const {
  return state_->tensors.b.addresses[state_->context.local(rank)];
}
GpuAddress Operation::out(int rank) const {
  return state_->tensors.out.addresses[state_->context.local(rank)];
}

void Operation::prepare(int64_t rows) { state_->bucket_for(rows); }

std::string Operation::schedule(int64_t rows) const { return state_->made(rows).of_host.schedule; }

std::string Operation::reason(int64_t rows) const { return state_->made(rows).of_host.reason; }

std::vector<int64_t> Operation::buckets() const {
  std::vector<int64_t> rows;
  for (const auto& [size, bucket] : state_->buckets) rows.push_back(size);
  return rows;
}

void Operation::run(int rank, GpuStream stream, int64_t rows) {
  state_->run(rank, stream, rows, {static_cast<int32_t>(rows), 0});
}

void Operation::run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket) {
  if (rows == 0) throw UsageError("the address of a run's rows is 0");
  if (rows % sizeof(int32_t) != 0) {
    throw UsageError(fmt::format("a run's rows at {:#x}: an int32 begins at a multiple of {}", rows,
                                 sizeof(int32_t)));
  }
  state_->run(rank, stream, bucket, {static_cast<int32_t>(bucket), rows});
}

void Operation::finish() { state_->finish(); }

}  // namespace stretto
