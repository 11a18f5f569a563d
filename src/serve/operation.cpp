#include <fmt/format.h>

#include "gpu/beside_captures.h"
#include "serve/operation_state.h"
#include "stretto/error.h"

namespace stretto {

Operation::Operation(Context& context, const Operator& op, const OperationOptions& options) {
  context.state_->require_own_process();
  const cuda::BesideCaptures beside;
  state_ = std::make_unique<State>(*context.state_, op, options);
  prepare(state_->max_rows);
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

namespace {

// Nobody asks for the results any more.
template <typename State>
void end(State& state) {
  try {
    state.finish();
  } catch (const SystemError&) {
  }
}

}  // namespace

// A program may let an operation go inside a capture, on all ranks alike; memory that calls use is
// not freed before them.
Operation::~Operation() {
  if (state_->context.is_forked()) {
    static_cast<void>(state_.release());
    return;
  }
  const cuda::BesideCaptures beside;
  try {
    end(*state_);
    state_.reset();
  } catch (const UsageError&) {
    Context::State& context = state_->context;
    context.left.emplace_back(state_.release(), [](void* left) {
      const std::unique_ptr<State> state(static_cast<State*>(left));
      try {
        end(*state);
      } catch (const UsageError&) {  // a capture that never ended
      }
    });
  }
}

Operator Operation::at(int64_t rows) const {
  if (rows == state_->op.rows()) return state_->op;
  state_->require_rows(rows);
  return with_rows(state_->op, rows);
}

int64_t Operation::max_rows() const { return state_->max_rows; }
int64_t Operation::room() const { return state_->op.rows(); }

std::vector<std::string> Operation::tensors() const {
  std::vector<std::string> names;
  for (const CallerTensor& one : caller_tensors(state_->op)) {
    names.push_back(state_->op.tensor(one.tensor).name);
  }
  return names;
}

void Operation::prepare(int64_t rows) {
  state_->context.require_own_process();
  state_->bucket_for(rows, State::Made::ahead);
}

int Operation::learn(double budget_ms) {
  state_->context.require_own_process();
  return state_->learn(budget_ms);
}

std::string Operation::schedule(int64_t rows) const { return state_->made(rows).of_host.schedule; }

std::string Operation::reason(int64_t rows) const { return state_->made(rows).of_host.reason; }

std::vector<int64_t> Operation::buckets() const {
  std::vector<int64_t> rows;
  for (const auto& [size, bucket] : state_->buckets) rows.push_back(size);
  return rows;
}

void Operation::run(int rank, GpuStream stream, int64_t rows, std::span<const CallTensor> tensors) {
  if (rows == 0) {  // nothing, on all ranks alike
    state_->context.device(rank).make_current();
    return;
  }
  state_->run(rank, stream, rows, {static_cast<int32_t>(rows), 0}, tensors);
}

void Operation::run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket,
                    std::span<const CallTensor> tensors) {
  if (rows == 0) throw UsageError("the address of a run's rows is 0");
  if (rows % sizeof(int32_t) != 0) {
    throw UsageError(fmt::format("a run's rows at {:#x}: an int32 begins at a multiple of {}", rows,
                                 sizeof(int32_t)));
  }
  state_->run(rank, stream, bucket, {static_cast<int32_t>(bucket), rows}, tensors);
}

void Operation::finish() {
  state_->context.require_own_process();
  state_->finish();
}
uint64_t Operation::bad_ids() const {
  uint64_t all = state_->gone_bad_ids;
  state_->for_each_runner([&](runtime::PlanRunner& runner) { all += runner.bad_ids(); });
  return all;
}
std::string Operation::error() const { return state_->error(); }

int Operation::calls_per_graph(int64_t rows) const {
  return state_->made(rows).of_host.runner->runs_per_graph();
}

size_t Operation::workspace_bytes() const { return state_->workspace->memory().num_bytes(); }

uint64_t Operation::copied_bytes() const {
  uint64_t all = state_->gone_copied_bytes;
  state_->for_each_runner([&](runtime::PlanRunner& runner) { all += runner.copied_bytes(); });
  return all;
}

}  // namespace stretto
