#include <fmt/format.h>

#include "serve/operation_state.h"
#include "stretto/error.h"

namespace stretto {

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

Segment Operation::at(int64_t rows) const {
  state_->require_rows(rows);
  Segment op = state_->op;
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
