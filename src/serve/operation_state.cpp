#include "serve/operation_state.h"

#include <fmt/format.h>

#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

Segment largest(const OperationShape& shape, int64_t max_rows, int ranks, RowCount rows) {
  if (max_rows < 1 || max_rows > kMaxDim) {
    throw UsageError(
        fmt::format("an operation of up to {} rows; it has 1 to {}", max_rows, kMaxDim));
  }
  if (Segment{shape.kind}.exchanges()) {
    throw UsageError(
        fmt::format("{} is planned, but no operation serves it: take ag-gemm, gemm-rs "
                    "or gemm-ar",
                    to_string(shape.kind)));
  }
  const int64_t m = rows == RowCount::fixed ? max_rows : bucket_of(shape.kind, ranks, max_rows);
  Segment op{shape.kind, m, shape.n, shape.k, ranks, shape.dtype};
  validate(op);
  return op;
}

}  // namespace

Operation::State::Planned& Operation::State::Bucket::for_rows(const runtime::CallRows& rows) {
  if (rows.at != 0 && !why_not_of_memory.empty()) {
    throw UsageError("rows that stand in GPU memory: " + why_not_of_memory);
  }
  return rows.at != 0 && of_memory.runner ? of_memory : of_host;
}

Operation::State::State(Context::State& of, const OperationShape& shape, int64_t most,
                        const OperationOptions& with)
    : context(of),
      max_rows(most),
      op(largest(shape, most, of.fabric->ranks(), with.rows)),
      options(with),
      tensors(runtime::place_tensors(*of.fabric, op, with.tensors)) {}

void Operation::State::require_rows(int64_t rows) const {
  if (is_fixed() && rows != max_rows) {
    throw UsageError(
        fmt::format("{} rows; this operation was made for {}, no more and no fewer: one with "
                    "rows=bucket serves any",
                    rows, max_rows));
  }
  if (rows >= 1 && rows <= max_rows) return;
  throw UsageError(fmt::format("{} rows; this operation serves 1 to {}", rows, max_rows));
}

int64_t Operation::State::bucket_rows(int64_t rows) const {
  return is_fixed() ? max_rows : bucket_of(op.kind, op.ranks, rows);
}

Operation::State::Bucket& Operation::State::bucket_for(int64_t rows) {
  require_rows(rows);
  const int64_t size = bucket_rows(rows);
  const auto found = buckets.find(size);
  return found != buckets.end() ? *found->second : make_bucket(size);
}

const Operation::State::Bucket& Operation::State::made(int64_t rows) const {
  require_rows(rows);
  const auto found = buckets.find(bucket_rows(rows));
  if (found == buckets.end()) {
    throw UsageError(fmt::format("no plan serves {} rows yet: prepare({}) makes it", rows, rows));
  }
  return *found->second;
}

Operation::State::Bucket& Operation::State::make_bucket(int64_t rows) {
  Segment planned = op;
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

void Operation::State::make(Planned& made, const Segment& planned, AutoSchedule chosen,
                            bool rows_in_memory) {
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
AutoSchedule Operation::State::schedule_for(const Segment& planned, RowsFrom from) const {
  const Machine& machine = context.machine;
  if (options.schedule != "auto") {
    Schedule schedule = parse_schedule(options.schedule, planned, machine, kAutoWords);
    schedule.rows = options.rows;
    return {schedule, {}};
  }
  if (is_fixed()) return auto_schedule(planned, machine, context.tuning);
  return served_schedule(planned, machine, context.tuning, from);
}

std::optional<AutoSchedule> Operation::State::other_for_memory(const Segment& planned,
                                                               const AutoSchedule& chosen) const {
  if (is_fixed() || options.schedule != "auto" || chosen.schedule.gemm == GemmBy::tiles) {
    return std::nullopt;
  }
  AutoSchedule other = schedule_for(planned, RowsFrom::gpu_memory);
  if (other.schedule == chosen.schedule) return std::nullopt;
  return other;
}

void Operation::State::run(int rank, GpuStream stream, int64_t most,
                           const runtime::CallRows& rows) {
  if (is_fixed() && rows.at != 0) {
    throw UsageError("rows that stand in GPU memory: this operation's are fixed");
  }
  const cuda::Device& device = context.device(rank);
  Bucket& bucket = bucket_for(most);
  device.make_current();
  bucket.for_rows(rows).runner->enqueue(rank, static_cast<cuda::StreamHandle>(stream),
                                        is_fixed() ? runtime::CallRows{} : rows);
}

void Operation::State::finish() {
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

}  // namespace stretto
