// Operators on GPUs: a context once, an operation for each operator once, then calls.
//
//   Context context(8);                              // all ranks here, or this process's of a job
//   Operation down(context, make_operator("gemm-rs", {{"m", 4096}, {"n", 8192}, {"k", 28672}}, 8));
//   down.run(rank, stream, rows, {{"a", a}, {"b", b}, {"out", out}});  // any 1 <= rows <= 4096
//
// An operator is a graph (operator.h), and a call gives all its inputs and outputs by their names
// (call.h), wherever they lie on the rank's GPU: one operation serves all layers of a model. A
// tensor begins at a multiple of 16 bytes, and so do its rows; what the schedule only multiplies
// may have gaps between rows. Outputs lie on no other tensor. Where other ranks write a result, or
// read an input, the operation has memory of its own for it and the call copies (copied_bytes()).
//
// The row count may change with every call (docs/serving.md). A call enqueues kernels and returns:
// it does not wait for the GPU, allocates nothing and can be captured in a CUDA graph, except the
// first call for rows of a new bucket, which makes that bucket's plan; prepare() makes it ahead. A
// call whose addresses are new to the operation encodes them, which costs the host some
// microseconds more. All ranks make the same calls of an operation in the same order, each on
// streams of its own; all calls on a GPU, of whatever operation, context or process, must be
// ordered with one another, by streams and events: of two that run at once each may hold the SMs
// that the other's peers wait for. Ranks of one process may call from threads of their own once the
// buckets are prepared.
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
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/call.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto {

using GpuAddress = unsigned long long;  // CUdeviceptr, or a pointer of cudaMalloc
using GpuStream = void*;                // CUstream, cudaStream_t

class Operation;
class SymmetricHeap;
class Kernel;

// This process's rank of a job that has met already, by whatever means: a process group of its own,
// the ranks of one machine among more, ...
struct JobRank {
  int rank = 0, ranks = 1;
  int gpu = 0;  // the CUDA device, as this process numbers them
  // Collective, called once: every rank's bytes, by rank. All ranks give as many.
  std::function<std::vector<std::string>(const std::string& mine)> exchange = {};
};

// All ranks give the same.
struct ContextOptions {
  double timeout_s = 10;  // a run's wait for another rank ends with an error after it
  // Memory of every GPU for what lies between ranks, shared by all operations: so many bytes are
  // taken with the context. With `workspace_grows` a plan that needs more takes more, else it is
  // refused. Twice what the largest plan needs lets plans lie side by side, which spares ranks
  // waits for each other between them; one that grows has that. 0 bytes that do not grow: each
  // operation has its own, as large as its largest bucket needs (docs/serving.md).
  size_t workspace_bytes = 0;
  bool workspace_grows = false;
  // SMs of every GPU that no run holds, for kernels of others that wait for other ranks while runs
  // are under way, such as NCCL's of another group (docs/serving.md): half of them at the most.
  int free_sms = 0;
  // A run waits for the one before it on its GPU where that went to another stream: of all contexts
  // of the process that are made so. Else the caller orders streams.
  bool orders_streams = false;
};

class Context {
 public:
  // Collective over the processes of a job. Under torchrun, mpirun or `stretto launch` this process
  // has one of `ranks` ranks. Else it has all of them, rank r on GPU r. Throws SystemError: no GPU,
  // too few, ...; UsageError for what load_tuning() refuses.
  explicit Context(int ranks, const ContextOptions& options = {});
  Context(int ranks, double timeout_s) : Context(ranks, ContextOptions{.timeout_s = timeout_s}) {}
  // Collective over the ranks that `job` names, whatever launched them; all on one machine. Throws
  // UsageError where they disagree on who they are.
  explicit Context(const JobRank& job, const ContextOptions& options = {});
  Context(const JobRank& job, double timeout_s)
      : Context(job, ContextOptions{.timeout_s = timeout_s}) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int ranks() const;
  // The ranks of this process: first_rank() ... first_rank() + num_local() - 1.
  int first_rank() const;
  int num_local() const;
  // The CUDA device of a rank of this process, as this process numbers them.
  int gpu(int rank) const;
  // What the workspace of all operations has of every GPU now; 0 where each has its own.
  size_t workspace_bytes() const;

  // Directs the calling thread to a rank's GPU, its primary context.
  void make_current(int rank) const;
  // A stream of the context's own for that rank.
  GpuStream stream(int rank) const;
  // For tests and small programs: these wait for the bytes, and for no stream: what a run reads or
  // wrote is copied before it is enqueued, or after finish(). `rank` is of this process.
  void copy_to_gpu(int rank, GpuAddress to, const void* from, size_t num_bytes) const;
  void copy_from_gpu(int rank, void* to, GpuAddress from, size_t num_bytes) const;
  // Memory of that rank's GPU, until the context ends.
  GpuAddress allocate(int rank, size_t num_bytes);
  // Collective. The same of every rank's GPU, which the other ranks reach: where the results of
  // operations with `shared_results` lie. By rank of this process.
  std::vector<GpuAddress> allocate_shared(size_t num_bytes);

 private:
  friend class Operation;
  friend class SymmetricHeap;
  friend class Kernel;
  struct State;
  std::unique_ptr<State> state_;
};

struct OperationOptions {
  // The name of a preset or a system and changes, or a whole schedule (schedule.h); it is planned
  // with `rows`, and not every schedule can serve rows=bucket. auto: for each bucket, of those that
  // can, what was measured to be the fastest, there or nearby, without a simulation (tune.h:
  // served_schedule).
  std::string schedule = "auto";
  // fixed: every run has exactly `max_rows` rows, so all schedules can serve, also those that move
  // with NCCL or have tiles with rows of two owners; auto then chooses as the command does.
  RowCount rows = RowCount::bucket;
  // Where auto is not sure, making the operation and prepare() time the best few schedules on its
  // GPUs, for so many milliseconds of runs, and take the fastest; what is found is kept for later
  // processes (docs/tuning.md). 0: never. Nothing: what STRETTO_MEASURE_MS says. Runs never
  // measure. The processes go by that of rank 0.
  std::optional<double> measure_ms = {};
  // Results that other ranks write (of gemm-ar, where tiles are sent to all) are written where a
  // call wants them, without a copy. They lie in memory of Context::allocate_shared() then, at the
  // same place on all ranks: finish() names ranks that gave another.
  bool shared_results = false;
};

class Operation {
 public:
  // Collective. `op` has as many ranks as the context, and as many rows as a call has at the most:
  // the plan for so many is made here, with auto the one for the fewest too. Any graph that GPUs
  // run will do. Rows may change of one product alone, which no all-to-all feeds or drains; others
  // are made with rows=fixed. The context must outlive it. Throws UsageError.
  Operation(Context& context, const Operator& op, const OperationOptions& options = {});
  // Waits for its calls.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The operator with so many rows, at most room(): which part of each tensor a rank holds
  // (slice_of()).
  Operator at(int64_t rows) const;
  // The most rows of a call; rounded up to a bucket where they are not fixed. Tensors of calls
  // whose rows stand in GPU memory have as many, those of others what the call has.
  int64_t max_rows() const;
  int64_t room() const;
  // What calls give: inputs, then outputs.
  std::vector<std::string> tensors() const;

  // Makes the plan that serves so many rows, unless it is there. Collective, where it is not.
  void prepare(int64_t rows);
  // Collective, between calls and outside captures: for a server that is idle. Measures schedules
  // of plans that are there and that auto is not sure of, those with most runs first, each once,
  // and takes the fastest from the next call on; what is found is kept as making an operation keeps
  // it. Waits for all calls before, as finish() does, and throws what it throws. Begins no other
  // plan after `budget_ms` milliseconds, those of rank 0; the last may take longer by what its
  // first two schedules need. Graphs that hold an older plan go on with it, and it keeps its memory
  // for them. Returns how many plans another call would measure. Throws UsageError, on all ranks,
  // where any may not wait for its GPU: a stream that the context knows is being captured.
  int learn(double budget_ms);
  // Row counts of the plans that are there, ascending.
  std::vector<int64_t> buckets() const;
  // The schedule of the plan that serves so many rows, told by the host, and is there.
  std::string schedule(int64_t rows) const;
  // Why `auto` took it, or what a name stands for (schedule.h: NamedSchedule); a line for people,
  // empty where the schedule says all.
  std::string reason(int64_t rows) const;

  // One run of `rows` rows; 0 do nothing. Leaves the rank's GPU current. The stream must live until
  // the next finish().
  void run(int rank, GpuStream stream, int64_t rows, std::span<const CallTensor> tensors);
  void run(int rank, GpuStream stream, int64_t rows, std::initializer_list<CallTensor> tensors) {
    run(rank, stream, rows, std::span(tensors.begin(), tensors.size()));
  }
  // The rows are read from the rank's GPU memory when the run starts: an int32 that any earlier
  // kernel or copy of the stream wrote, the same on all ranks, 0 to `bucket`. So one captured graph
  // serves them all. `bucket` chooses the plan, as prepare() does. The plan may be another than for
  // rows that the host says. Where a library multiplies, it multiplies `bucket` rows, whatever
  // stands in those of A that the run does not have.
  void run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket,
           std::span<const CallTensor> tensors);
  void run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket,
           std::initializer_list<CallTensor> tensors) {
    run(rank, stream, rows, bucket, std::span(tensors.begin(), tensors.size()));
  }

  // Collective. Waits for all calls; those in graphs must have ended: synchronise the streams that
  // graphs were launched on first. Throws SystemError naming a wait that did not end in time; the
  // results of the calls since the last finish() are then useless, and the operation can go on.
  void finish();
  // What went wrong so far on this process's ranks, or what another rank told them; empty: nothing.
  // Asks the host's memory only, and nobody: any rank, at any time, also while streams are
  // captured. The next run() throws it. finish() says more, and mends it.
  std::string error() const;
  // How many ids of all runs that have ended were no expert's and not -1: nothing is chosen there.
  // How many look-ups named no row of their table, in tables of this process's ranks.
  uint64_t bad_ids() const;

  // A captured graph holds a multiple of so many calls of so many rows, which are there
  // (buckets()); mostly 1.
  int calls_per_graph(int64_t rows) const;
  // What every GPU has for what lies between ranks; with a workspace of the context's all of that.
  size_t workspace_bytes() const;
  // How much of tensors calls have copied.
  uint64_t copied_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Memory for an operation's tensors, as large as any call needs: for tests and small programs.
class TensorMemory {
 public:
  TensorMemory(Context& context, const Operation& operation);
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  GpuAddress at(int rank, std::string_view tensor) const;
  // What run() takes.
  std::span<const CallTensor> of(int rank) const;

 private:
  int first_rank_;
  std::vector<std::string> names_;
  std::vector<std::vector<CallTensor>> tensors_;  // by rank of this process
};

}  // namespace stretto
