// The part of the C interface that runs on a GPU: contexts and operations of this process's rank.
#include <fmt/format.h>

#include <memory>

#include "c/arguments.h"
#include "c/sized.h"
#include "fabric/job.h"
#include "stretto/c.h"
#include "stretto/context.h"
#include "stretto/error.h"

using namespace stretto;
using c::guarded, c::keep, c::require;

struct stretto_context {
  Context context;
  int operations = 0;

  int rank() const { return context.first_rank(); }
};

struct stretto_operation {
  stretto_context& of;
  Operation operation;
  Operator op;  // with as many rows as the largest bucket
};

namespace stretto::c {
namespace {

// The caller's function, which knows no exceptions.
JobRank job_of(const stretto_context_request& given) {
  JobRank job{given.rank, given.ranks, given.gpu};
  if (given.exchange == nullptr) return job;
  job.exchange = [given](const std::string& mine) {
    std::string all(mine.size() * static_cast<size_t>(given.ranks), '\0');
    if (const int status = given.exchange(given.user, mine.data(), all.data(), mine.size())) {
      throw SystemError(fmt::format("the exchange of the ranks failed: it returned {}", status));
    }
    std::vector<std::string> by_rank;
    for (size_t at = 0; at < all.size(); at += mine.size()) {
      by_rank.push_back(all.substr(at, mine.size()));
    }
    return by_rank;
  };
  return job;
}

Context open_context(const stretto_context_request& given) {
  const ContextOptions options = {.timeout_s = given.timeout_s,
                                  .workspace_bytes = given.workspace_bytes,
                                  .workspace_grows = given.workspace_grows != 0,
                                  .free_sms = given.free_sms,
                                  .orders_streams = given.orders_streams != 0};
  if (given.ranks != 0) return Context(job_of(given), options);
  const auto job = fabric::job_from();
  if (!job) {
    throw UsageError(
        "no launcher has said which rank this process is: start it by torchrun, mpirun or `stretto "
        "launch`, set STRETTO_RANK and STRETTO_RANKS, or give rank and ranks (ranks=1: alone)");
  }
  return Context(job->size, options);
}

std::vector<CallTensor> own_tensors(const stretto_operation& of, const stretto_call_tensor* tensors,
                                    size_t count) {
  std::vector<CallTensor> own;
  own.reserve(count);
  for (const TensorOfRank& one : call_tensors(of.op, tensors, count)) {
    if (one.rank != 0 && one.rank != of.of.rank()) {
      throw UsageError(fmt::format(
          "tensor {} of rank {}: a run takes those of this process's rank, {}; 0 says so too",
          one.tensor.name, one.rank, of.of.rank()));
    }
    own.push_back(one.tensor);
  }
  return own;
}

}  // namespace
}  // namespace stretto::c

int stretto_context_open(const stretto_context_request* request, stretto_context** context) {
  return guarded([&] {
    auto*& opened = require(context, "context");
    opened = nullptr;
    const auto given = c::sized(request, "request",
                                {"stretto_context_request",
                                 offsetof(stretto_context_request, user) + sizeof(request->user)});
    opened = new stretto_context{c::open_context(given)};
  });
}

int stretto_context_close(stretto_context* context) {
  return guarded([&] {
    if (const int left = require(context, "context").operations; left > 0) {
      throw UsageError(fmt::format("the context has {} operation{} left: close them before it",
                                   left, left == 1 ? "" : "s"));
    }
    delete context;
  });
}

int32_t stretto_context_rank(const stretto_context* context) {
  int32_t rank = -1;
  guarded([&] { rank = require(context, "context").rank(); });
  return rank;
}

int32_t stretto_context_ranks(const stretto_context* context) {
  int32_t ranks = -1;
  guarded([&] { ranks = require(context, "context").context.ranks(); });
  return ranks;
}

int32_t stretto_context_gpu(const stretto_context* context) {
  int32_t gpu = -1;
  guarded([&] { gpu = require(context, "context").context.gpu(context->rank()); });
  return gpu;
}

int stretto_context_workspace(const stretto_context* context, uint64_t* num_bytes) {
  return guarded([&] {
    require(num_bytes, "num_bytes") = require(context, "context").context.workspace_bytes();
  });
}

int stretto_context_allocate_shared(stretto_context* context, uint64_t num_bytes,
                                    uint64_t* address) {
  return guarded([&] {
    auto& allocated = require(address, "address");
    allocated = require(context, "context").context.allocate_shared(num_bytes).front();
  });
}

int stretto_operation_make(stretto_context* context, const stretto_operation_request* request,
                           stretto_operation** operation) {
  return guarded([&] {
    auto*& made = require(operation, "operation");
    made = nullptr;
    stretto_context& of = require(context, "context");
    const auto asked =
        c::sized(request, "request",
                 {"stretto_operation_request",
                  offsetof(stretto_operation_request, schedule) + sizeof(request->schedule)});
    const Operator op = c::operator_of(asked.op);
    OperationOptions options;
    options.schedule = c::text_of(asked.schedule, "schedule");
    options.rows = asked.serves != 0 ? RowCount::bucket : RowCount::fixed;
    if (asked.measure_ms != 0) options.measure_ms = asked.measure_ms < 0 ? 0 : asked.measure_ms;
    options.shared_results = asked.shared_results != 0;
    // Made in place: an operation cannot be moved.
    made = new stretto_operation{of, Operation(of.context, op, options), op};
    made->op = made->operation.at(made->operation.room());
    ++of.operations;
  });
}

int stretto_operation_close(stretto_operation* operation) {
  return guarded([&] {
    --require(operation, "operation").of.operations;
    delete operation;
  });
}

int stretto_operation_rows(const stretto_operation* operation, int64_t* rows) {
  return guarded(
      [&] { require(rows, "rows") = require(operation, "operation").operation.max_rows(); });
}

int stretto_operation_tensor(const stretto_operation* operation, int64_t rows, int32_t index,
                             stretto_tensor_info* info) {
  return guarded([&] {
    const stretto_operation& of = require(operation, "operation");
    c::tell_tensor(of.operation.at(rows), of.of.rank(), index, info);
  });
}

int stretto_operation_prepare(stretto_operation* operation, int64_t rows) {
  return guarded([&] { require(operation, "operation").operation.prepare(rows); });
}

int stretto_operation_learn(stretto_operation* operation, double budget_ms, int32_t* left) {
  return guarded([&] {
    auto& plans = require(left, "left");
    plans = 0;
    plans = require(operation, "operation").operation.learn(budget_ms);
  });
}

int stretto_operation_schedule(const stretto_operation* operation, int64_t rows,
                               const char** schedule) {
  return guarded([&] {
    require(schedule, "schedule") =
        keep(0, require(operation, "operation").operation.schedule(rows));
  });
}

int stretto_operation_reason(const stretto_operation* operation, int64_t rows,
                             const char** reason) {
  return guarded([&] {
    require(reason, "reason") = keep(0, require(operation, "operation").operation.reason(rows));
  });
}

int stretto_operation_workspace(const stretto_operation* operation, uint64_t* num_bytes) {
  return guarded([&] {
    require(num_bytes, "num_bytes") = require(operation, "operation").operation.workspace_bytes();
  });
}

int stretto_operation_runs_per_graph(const stretto_operation* operation, int64_t rows,
                                     int32_t* runs) {
  return guarded([&] {
    require(runs, "runs") = require(operation, "operation").operation.calls_per_graph(rows);
  });
}

int stretto_operation_run(stretto_operation* operation, int64_t rows,
                          const stretto_call_tensor* tensors, size_t count, void* stream) {
  return guarded([&] {
    stretto_operation& of = require(operation, "operation");
    of.operation.run(of.of.rank(), stream, rows, c::own_tensors(of, tensors, count));
  });
}

int stretto_operation_run_at(stretto_operation* operation, uint64_t rows_address, int64_t bucket,
                             const stretto_call_tensor* tensors, size_t count, void* stream) {
  return guarded([&] {
    stretto_operation& of = require(operation, "operation");
    of.operation.run(of.of.rank(), stream, static_cast<GpuAddress>(rows_address), bucket,
                     c::own_tensors(of, tensors, count));
  });
}

int stretto_operation_finish(stretto_operation* operation) {
  return guarded([&] { require(operation, "operation").operation.finish(); });
}

int stretto_operation_copied(const stretto_operation* operation, uint64_t* num_bytes) {
  return guarded([&] {
    require(num_bytes, "num_bytes") = require(operation, "operation").operation.copied_bytes();
  });
}

int stretto_operation_bad_ids(const stretto_operation* operation, uint64_t* count) {
  return guarded(
      [&] { require(count, "count") = require(operation, "operation").operation.bad_ids(); });
}

int stretto_operation_error(const stretto_operation* operation, const char** what) {
  return guarded(
      [&] { require(what, "what") = keep(0, require(operation, "operation").operation.error()); });
}
