// Operators on GPUs: a context once, an operation for each shape once, then calls.
//
//   Context context(8);                              // all ranks here, or this process's of a job
//   Operation down(context, {.kind = kGemmRs, .n = 8192, .k = 28672}, 4096);
//   ... inputs to down.a(rank), down.b(rank) ...
//   down.run(rank, stream, rows);                    // behind what the stream has; rows <= 4096
//   ... result in down.out(rank), on the same stream ...
//
// The row count may change with every call (docs/serving.md). A call enqueues kernels and returns:
// it does not wait for the GPU, allocates nothing and can be captured in a CUDA graph, except the
// first call for rows of a new bucket, which makes that bucket's plan; prepare() makes it ahead.
// All ranks make the same calls of an operation in the same order, each on streams of its own; all
// calls on a GPU, of whatever operation, context or process, must be ordered with one another, by
// streams and events: of two that run at once each may hold the SMs that the other's peers wait
// for. Ranks of one process may call from threads of their own once the buckets are prepared.
//
// What cannot be served is refused by Operation's constructor, as UsageError (or
// SystemError: the GPU), before anything runs
// (docs/serving.md lists it), so that a caller can keep its library path for that layer.
//
// Streams and addresses are those of the CUDA driver and runtime, as plain types. Errors are
// UsageError for what cannot be, SystemError for what failed (error.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

using GpuAddress = unsigned long long;  // CUdeviceptr, or a pointer of cudaMalloc
using GpuStream = void*;                // CUstream, cudaStream_t

class Operation;
class SymmetricHeap;
class Kernel;

class Context {
 public:
  // Collective over the processes of a job. Of a job that torchrun, mpirun or `stretto launch`
  // started: its rank, `ranks` in all. Else all ranks in this process, rank r on GPU r. A wait for
  // another rank ends with an error after `timeout_s`. Throws SystemError: no GPU, too few, ...;
  // UsageError for what load_tuning() refuses.
  explicit Context(int ranks, double timeout_s = 10);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int ranks() const;
  // The ranks of this process: first_rank() ... first_rank() + num_local() - 1.
  int first_rank() const;
  int num_local() const;
  // The CUDA device of a rank of this process, as this process numbers them.
  int gpu(int rank) const;

  // Directs the calling thread to a rank's GPU, its primary context.
  void make_current(int rank) const;
  // A stream of the context's own for that rank.
  GpuStream stream(int rank) const;
  // For tests and small programs: these wait for the bytes, and for no stream: what a run reads or
  // wrote is copied before it is enqueued, or after finish(). `rank` is of this process.
  void copy_to_gpu(int rank, GpuAddress to, const void* from, size_t num_bytes) const;
  void copy_from_gpu(int rank, void* to, GpuAddress from, size_t num_bytes) const;

 private:
  friend class Operation;
  friend class SymmetricHeap;
  friend class Kernel;
  struct State;
  std::unique_ptr<State> state_;
};

// What an operation computes, but for the rows (operator.h).
struct OperationShape {
  ProductKind kind = kGemmRs;
  int64_t n = 0, k = 0;  // global
  DType dtype = DType::bf16;
};

// The caller's tensors of one rank; 0: the operation allocates it.
struct RankTensors {
  GpuAddress a = 0, b = 0, out = 0;
};

struct OperationOptions {
  // A preset's name and changes, or a whole schedule (schedule.h); it is planned with `rows`, and
  // not every schedule can serve rows=bucket. auto: for each bucket, of those that can, what was
  // measured to be the fastest, there or nearby, without a simulation (tune.h: served_schedule).
  std::string schedule = "auto";
  // fixed: every run has exactly `max_rows` rows, so all schedules can serve, also those that move
  // with NCCL or have tiles with rows of two owners; auto then chooses as the command does.
  RowCount rows = RowCount::bucket;
  // By rank of this process; empty: the operation allocates all. A tensor has room for
  // Operation::room() rows. The result of gemm-ar is the operation's own: other ranks write it.
  // With fixed rows making the operation may already write `out`.
  std::vector<RankTensors> tensors = {};
};

class Operation {
 public:
  // Collective. Serves 1 to `max_rows` rows: the plan for so many is made here, with auto the one
  // for the fewest too. The context must outlive it. Throws UsageError.
  Operation(Context& context, const OperationShape& shape, int64_t max_rows,
            const OperationOptions& options = {});
  // Waits for its calls.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The operator with so many rows: which part of each tensor a rank holds (reference.h).
  Segment at(int64_t rows) const;
  // Rows that tensors have room for, of all ranks together: max_rows, rounded up to a bucket where
  // they are not fixed. A tensor that is sharded by rows has room for room() / ranks, rounded up.
  int64_t room() const;
  // Row-major, without gaps; `rank` is of this process.
  GpuAddress a(int rank) const;
  GpuAddress b(int rank) const;
  GpuAddress out(int rank) const;

  // Makes the plan that serves so many rows, unless it is there. Collective, where it is not.
  void prepare(int64_t rows);
  // Row counts of the plans that are there, ascending.
  std::vector<int64_t> buckets() const;
  // The schedule of the plan that serves so many rows, told by the host, and is there.
  std::string schedule(int64_t rows) const;
  // Why `auto` took it, a line for people; empty where the schedule was named.
  std::string reason(int64_t rows) const;

  // One run of `rows` rows. Leaves the rank's GPU current. The stream must live until the next
  // finish().
  void run(int rank, GpuStream stream, int64_t rows);
  // The rows are read from the rank's GPU memory when the run starts: an int32 that any earlier
  // kernel or copy of the stream wrote, the same on all ranks, 0 to `bucket`. So one captured graph
  // serves them all. `bucket` chooses the plan, as prepare() does. The plan may be another than for
  // rows that the host says. Where a library multiplies, it multiplies `bucket` rows, whatever
  // stands in those of A that the run does not have.
  void run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket);

  // Collective. Waits for all calls; those in graphs must have ended: synchronise the streams that
  // graphs were launched on first. Throws SystemError naming a wait that did not end in time; the
  // results of the calls since the last finish() are then useless, and the operation can go on.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stretto
