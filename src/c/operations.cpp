// The part of the C interface that runs on a GPU: contexts and operations of this process's rank.
#include <fmt/format.h>

#include <memory>

#include "c/boundary.h"
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
};

int stretto_context_open(double timeout_s, stretto_context** context) {
  return guarded([&] {
    auto*& opened = require(context, "context");
    opened = nullptr;
    const auto job = fabric::job_from();
    opened = new stretto_context{Context(job ? job->size : 1, timeout_s)};
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

int stretto_operation_make(stretto_context* context, const stretto_operation_request* request,
                           stretto_operation** operation) {
  return guarded([&] {
    auto*& made = require(operation, "operation");
    made = nullptr;
    stretto_context& of = require(context, "context");
    const auto asked = c::sized(request, "request",
                                {"stretto_operation_request",
                                 offsetof(stretto_operation_request, out) + sizeof(request->out)});
    const OperationShape shape{c::kind_of(asked.kind), asked.n, asked.k, c::dtype_of(asked.dtype)};
    OperationOptions options;
    options.schedule = c::text_of(asked.schedule, "schedule");
    options.rows = asked.serves != 0 ? RowCount::bucket : RowCount::fixed;
    options.tensors = {{asked.a, asked.b, asked.out}};
    // Made in place: an operation cannot be moved.
    made = new stretto_operation{of, Operation(of.context, shape, asked.max_rows, options)};
    ++of.operations;
  });
}

int stretto_operation_close(stretto_operation* operation) {
  return guarded([&] {
    --require(operation, "operation").of.operations;
    delete operation;
  });
}

int stretto_operation_address(const stretto_operation* operation, stretto_tensor tensor,
                              uint64_t* address) {
  return guarded([&] {
    const stretto_operation& of = require(operation, "operation");
    const int rank = of.of.rank();
    uint64_t& place = require(address, "address");
    switch (tensor) {
      case STRETTO_A:
        place = of.operation.a(rank);
        return;
      case STRETTO_B:
        place = of.operation.b(rank);
        return;
      case STRETTO_OUT:
        place = of.operation.out(rank);
        return;
    }
    throw UsageError(
        fmt::format("tensor {}; it is 0 (a), 1 (b) or 2 (out)", static_cast<int>(tensor)));
  });
}

int stretto_operation_prepare(stretto_operation* operation, int64_t rows) {
  return guarded([&] { require(operation, "operation").operation.prepare(rows); });
}

int stretto_operation_schedule(const stretto_operation* operation, int64_t rows,
                               const char** schedule) {
  return guarded([&] {
    require(schedule, "schedule") =
        keep(0, require(operation, "operation").operation.schedule(rows));
  });
}

int stretto_operation_run(stretto_operation* operation, int64_t rows, void* stream) {
  return guarded([&] {
    stretto_operation& of = require(operation, "operation");
    of.operation.run(of.of.rank(), stream, rows);
  });
}

int stretto_operation_run_at(stretto_operation* operation, uint64_t rows_address, int64_t bucket,
                             void* stream) {
  return guarded([&] {
    stretto_operation& of = require(operation, "operation");
    of.operation.run(of.of.rank(), stream, static_cast<GpuAddress>(rows_address), bucket);
  });
}

int stretto_operation_finish(stretto_operation* operation) {
  return guarded([&] { require(operation, "operation").operation.finish(); });
}
