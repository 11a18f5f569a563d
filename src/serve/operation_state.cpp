#include "serve/operation_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/beside_captures.h"
#include "launch/shared_streams.h"
#include "schedule/set_rows.h"
#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"
#include "tune/copied_results.h"

namespace stretto {
namespace {

// With as many rows as the bucket has.
Operator of_bucket(const Operator& op) { return with_rows(op, bucket_of(op, op.rows())); }

// Why no schedule serves runs of fewer rows, by what one that pushes tiles may not have for them;
// empty where it may.
std::string why_fixed(const Operator& op, const Machine& machine) {
  if (op.only_product() == nullptr) return "rows=bucket serves operators of one product";
  const Operator bucket = of_bucket(op);
  const Segment& product = *bucket.only_product();
  Schedule schedule = find_preset("tiles").make(product, machine);
  const std::vector<std::string> always = legal(product, schedule, machine);
  schedule.rows = RowCount::bucket;
  for (const std::string& reason : legal(product, schedule, machine)) {
    if (std::find(always.begin(), always.end(), reason) == always.end()) return reason;
  }
  return "";
}

Operator largest(const Operator& asked, int ranks, const Machine& machine, RowCount rows) {
  validate(asked);
  if (asked.ranks != ranks) {
    throw UsageError(
        fmt::format("an operator of {} ranks; the context has {}", asked.ranks, ranks));
  }
  if (rows == RowCount::fixed) return asked;
  if (const std::string why = why_fixed(asked, machine); !why.empty()) {
    throw UsageError(
        fmt::format("{} has fixed rows ({}): take an operation for each row count, with rows=fixed",
                    asked.name(), why));
  }
  return of_bucket(asked);
}

}  // namespace

Operation::State::Planned& Operation::State::Bucket::for_rows(const runtime::RowsOfCall& rows) {
  if (rows.at != 0 && !why_not_of_memory.empty()) {
    throw UsageError("rows that stand in GPU memory: " + why_not_of_memory);
  }
  return rows.at != 0 && of_memory.runner ? of_memory : of_host;
}

Operation::State::State(Context::State& of, const Operator& asked, const OperationOptions& with)
    : context(of),
      max_rows(asked.rows()),
      op(largest(asked, of.fabric->ranks(), of.machine, with.rows)),
      options(with),
      own_workspace(of.workspace ? nullptr : of.make_workspace({}, with.rows == RowCount::fixed)),
      workspace(of.workspace ? of.workspace.get() : own_workspace.get()),
      told_failures(workspace->failures()) {
  context.is_captured[this] = [this] {
    bool any = false;
    for_each_runner([&](runtime::PlanRunner& runner) { any = any || runner.is_captured(); });
    return any;
  };
}

Operation::State::~State() { context.is_captured.erase(this); }

void Operation::State::require_rows(int64_t rows) const {
  if (is_fixed() && rows != max_rows) {
    throw UsageError(fmt::format(
        "{} rows; this operation was made for {}, no more and no fewer: {}", rows, max_rows,
        why_fixed(op, context.machine).empty() ? "one with rows=bucket serves any"
                                               : "take one for each row count"));
  }
  if (rows >= 1 && rows <= max_rows) return;
  throw UsageError(fmt::format("{} rows; this operation serves 1 to {}", rows, max_rows));
}

int64_t Operation::State::bucket_rows(int64_t rows) const {
  return is_fixed() ? max_rows : bucket_of(op, rows);
}

Operation::State::Bucket& Operation::State::bucket_for(int64_t rows, Made when) {
  require_rows(rows);
  const int64_t size = bucket_rows(rows);
  const auto found = buckets.find(size);
  return found != buckets.end() ? *found->second : make_bucket(size, when);
}

const Operation::State::Bucket& Operation::State::made(int64_t rows) const {
  require_rows(rows);
  const auto found = buckets.find(bucket_rows(rows));
  if (found == buckets.end()) {
    throw UsageError(fmt::format("no plan serves {} rows yet: prepare({}) makes it", rows, rows));
  }
  return *found->second;
}

void Operation::State::for_each_runner(
    const std::function<void(runtime::PlanRunner&)>& visit) const {
  const auto visit_both = [&](const Bucket& bucket) {
    for (const Planned* planned : {&bucket.of_host, &bucket.of_memory}) {
      if (planned->runner) visit(*planned->runner);
    }
  };
  for (const auto& [rows, bucket] : buckets) visit_both(*bucket);
  for (const auto& bucket : old_buckets) visit_both(*bucket);
}

// Inside a call nothing is measured.
Operation::State::Bucket& Operation::State::make_bucket(int64_t rows, Made when) {
  const cuda::BesideCaptures beside;
  context.fabric->group().require_same("an operation", to_string(with_rows(op, rows)));
  const double most_ms = context.learning->budget_ms(options.measure_ms);
  const double budget_ms = when == Made::ahead ? most_ms : 0;
  const AutoSchedules chosen = schedule_for(with_rows(op, rows), RowsFrom::host, budget_ms);
  return *(buckets[rows] = bucket_with(chosen, rows));
}

std::unique_ptr<Operation::State::Bucket> Operation::State::bucket_with(const AutoSchedules& chosen,
                                                                        int64_t rows) {
  const Operator planned = with_rows(op, rows);
  auto bucket = std::make_unique<Bucket>();
  bucket->chosen = chosen.schedule;
  bucket->is_settled = options.schedule != "auto" || chosen.schedule.products.empty() ||
                       chosen.sureness.by == Evidence::measured || chosen.sureness.is_sure();
  std::optional<AutoSchedules> other;
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
  return bucket;
}

void Operation::State::make(Planned& made, const Operator& planned, AutoSchedules chosen,
                            bool rows_in_memory) {
  made.plan = lower(planned, chosen.schedule, context.machine);
  runtime::RunnerOptions how;
  how.timeout_ns = context.timeout_ns;
  how.serves = !is_fixed();
  how.rows_in_memory = rows_in_memory;
  how.tensors_at_calls = true;
  how.call_graphs = &context.call_graphs;
  how.workspace = &workspace->memory_of_next();
  if (options.shared_results) how.results = &context.results;
  if (options.schedule == "auto") how.if_not_proposed = IfNotProposed::take_first;
  made.runner =
      std::make_unique<runtime::PlanRunner>(made.plan, *context.fabric, context.kernels, how);
  workspace->welcome(*made.runner);
  chosen = with_first_algorithms(std::move(chosen), made.runner->not_proposed());
  made.schedule = to_string(chosen.schedule);
  made.reason = std::move(chosen.reason);
}

// Buckets are made inside calls, so nothing is simulated for them.
AutoSchedules Operation::State::schedule_for(const Operator& planned, RowsFrom from,
                                             double budget_ms) const {
  const Machine& machine = context.machine;
  if (options.schedule != "auto") {
    NamedSchedule named =
        read_schedules(options.schedule, planned, machine, kAutoWords, options.rows);
    set_rows(named.schedule, options.rows);
    return {std::move(named.schedule), std::move(named.reason)};
  }
  if (from == RowsFrom::gpu_memory) {  // of one product: rows of others are fixed
    AutoSchedule one = served_schedule(*planned.only_product(), machine, context.tuning, from);
    AutoSchedules served = {one.schedule, std::move(one.reason), one.sureness};
    context.learning->as_context_runs(served.schedule);
    return served;
  }
  AutoSchedules found = context.learning->choose(planned, options.rows, budget_ms);
  if (is_fixed() && planned.only_product() != nullptr && !options.shared_results) {
    found = with_copied_results(std::move(found), *planned.only_product(), machine, context.tuning);
    context.learning->as_context_runs(found.schedule);
  }
  const int sharing = context.fabric->ranks_a_gpu();
  // What was measured has run as one plan.
  const bool may_not_run =
      planned.only_product() == nullptr && found.sureness.by != Evidence::measured;
  if (is_fixed() && (may_not_run || sharing > 1)) {
    const Plan plan = lower(planned, found.schedule, machine);
    if (!cuda::why_not_on_cuda(plan).empty()) {
      return {schedule_of(find_preset("tiles"), planned, machine),
              "tiles, since what is fastest for each product does not run as one plan on GPUs"};
    }
    if (sharing > 1 && !cuda::why_not_shared(plan, cuda::programs_of(plan), sharing).empty()) {
      return {schedule_of(find_preset("tiles"), planned, machine),
              "tiles, since what is fastest does not run by ranks that share a GPU"};
    }
  }
  return found;
}

std::optional<AutoSchedules> Operation::State::other_for_memory(const Operator& planned,
                                                                const AutoSchedules& chosen) const {
  if (is_fixed() || options.schedule != "auto" || chosen.schedule.first().gemm == GemmBy::tiles) {
    return std::nullopt;
  }
  AutoSchedules other = schedule_for(planned, RowsFrom::gpu_memory, 0);
  if (other.schedule == chosen.schedule) return std::nullopt;
  return other;
}

void Operation::State::run(int rank, GpuStream stream, int64_t most,
                           const runtime::RowsOfCall& rows, std::span<const CallTensor> tensors) {
  if (is_fixed() && rows.at != 0) {
    throw UsageError("rows that stand in GPU memory: this operation's are fixed");
  }
  const cuda::Device& device = context.device(rank);
  const cuda::BesideCaptures beside;
  Bucket& bucket = bucket_for(most, Made::inside_a_call);
  if (rank == context.fabric->first_rank()) ++bucket.runs;
  device.make_current();
  runtime::PlanRunner& runner = *bucket.for_rows(rows).runner;
  if (runner.is_told() || workspace->is_told()) {
    throw SystemError(error() + "; finish() on all ranks goes on behind it");
  }
  const auto handle = static_cast<cuda::StreamHandle>(stream);
  const runtime::RowsOfCall run_rows = is_fixed() ? runtime::RowsOfCall{} : rows;
  const auto places = runner.places_of(rank, run_rows, tensors);
  const auto enqueue = [&] {
    workspace->enter(rank, handle, runner);
    try {
      runner.enqueue_at(rank, handle, run_rows, places);
    } catch (...) {  // a run that never was stands for no fence
      workspace->forget_turns();
      throw;
    }
  };
  if (context.orders.empty()) return enqueue();
  context.orders[context.local(rank)]->enqueue(cuda::Stream(handle), enqueue);
}

void Operation::State::finish() {
  const cuda::BesideCaptures beside;
  for_each_runner([](runtime::PlanRunner& runner) { runner.require_no_capture(); });
  // Where operations share the workspace, another's run may have been the last behind a fence.
  if (const runtime::PlanRunner* fence = workspace->fence()) fence->require_no_capture();
  std::string problem;
  for_each_runner([&](runtime::PlanRunner& runner) {
    try {
      runner.finish();
    } catch (const SystemError& error) {
      workspace->forget_turns();
      if (!runner.has_met()) throw;  // nor would the others
      workspace->note_failed(runner, error.what());
      if (problem.empty()) problem = error.what();
    }
  });
  // Last: a stream that stands in a collective of a plan's is the plan's to let go.
  const std::string of_others = workspace->finish_fences();
  if (problem.empty()) problem = workspace->problem_since(told_failures);
  if (problem.empty()) problem = of_others;
  told_failures = workspace->failures();
  if (!problem.empty()) throw SystemError(problem);
}

std::string Operation::State::error() const {
  std::string problem;
  for_each_runner([&](runtime::PlanRunner& runner) {
    if (problem.empty()) problem = runner.problem();
  });
  return problem.empty() ? workspace->problem_since(told_failures) : problem;
}

}  // namespace stretto
