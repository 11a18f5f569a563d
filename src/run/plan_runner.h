// Runs a plan on the GPUs of a fabric: memory, tables, streams, errors.
//
// Runs are stream-ordered on each rank; kernels count them on the GPU, so a captured graph can be
// launched many times.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "calls/call_tensors.h"
#include "calls/known_calls.h"
#include "fabric/fabric.h"
#include "fabric/run_state.h"
#include "gpu/compiler.h"
#include "run/plan_memory.h"
#include "run/run_end.h"
#include "run/run_watch.h"
#include "streams/rank_streams.h"
#include "tune/proposed_algorithms.h"

namespace stretto::runtime {

struct RunnerOptions {
  uint64_t timeout_ns = 2'000'000'000;  // of a wait
  // Streams wait for counters by themselves; else by a kernel of one warp, which needs a place on
  // an SM.
  bool stream_waits = true;
  bool serves = false;         // runs may have fewer rows than the plan
  bool rows_in_memory = true;  // then: and memory may say how many, which a library has memory for
  bool tensors_at_calls = false;           // the caller's tensors are a call's; else the runner's
  const SharedResults* results = nullptr;  // then: where results lie that other ranks write
  // Then: for the graphs of calls, by local rank; null: the runner's own.
  std::deque<CallGraphRoom>* call_graphs = nullptr;
  Workspace* workspace = nullptr;  // for what lies between ranks; null: the runner's own memory
  bool marks = false;              // kernels tell when they did what (measured_timeline.h)
  // Where cuBLAS has no such algorithm as the plan asks for. It is asked to propose so many.
  IfNotProposed if_not_proposed = IfNotProposed::refuse;
  int most_proposals = kMostAlgorithms;
};

class PlanRunner {
 public:
  // Collective over the fabric's processes. The plan and the fabric must outlive the runner. Throws
  // UsageError(why_not_on_cuda()) with all reasons and where cuBLAS does not propose the plan's
  // algorithm, SystemError.
  PlanRunner(const Plan& plan, fabric::Fabric& fabric, const cuda::Compiler& compiler,
             const RunnerOptions& options = {});
  // With kernels that others use too; the store must outlive the runner.
  PlanRunner(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
             const RunnerOptions& options = {});
  PlanRunner(const Plan&&, fabric::Fabric&, const cuda::Compiler&,
             const RunnerOptions& = {}) = delete;
  PlanRunner(const Plan&&, fabric::Fabric&, KernelStore&, const RunnerOptions& = {}) = delete;
  ~PlanRunner();
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  const Plan& plan() const { return plan_; }
  // The products for which cuBLAS's first algorithm multiplies instead of the plan's.
  const std::vector<NotProposed>& not_proposed() const { return not_proposed_; }
  // Memory of buffer `name`'s instance that run 0 uses; inputs and outputs have one. Ranks here and
  // below are of this process.
  cuda::DevicePtr buffer(std::string_view name, int rank) const;
  const PlanMemory& memory() const { return memory_; }
  // What a run does to the workspace that it was made with.
  const WorkspaceUse& workspace_use() const { return workspace_use_; }
  // Of this process's runners no other has or had it; never 0.
  uint64_t id() const { return id_; }

  // Enqueues one run on a stream of a rank: the runner's own, or the caller's. The calling thread
  // has that rank's GPU current. All runs of a rank must be ordered with one another. A caller's
  // stream lives until the next finish(). Throws SystemError where that has to meet the others
  // again first.
  void enqueue(int rank) { enqueue(rank, stream(rank).handle()); }
  void enqueue(int rank, cuda::StreamHandle stream) { enqueue(rank, stream, {}); }
  // With fewer rows than the plan, where the runner serves them: inputs and outputs have room for
  // the plan's and begin with the run's (serve.h). A library multiplies as many rows of A as memory
  // may say there are. Throws UsageError.
  void enqueue(int rank, cuda::StreamHandle stream, const RowsOfCall& rows) {
    enqueue(rank, stream, rows, {});
  }
  // Of a runner with tensors_at_calls: `tensors` are the rank's, by name, with the run's rows, or
  // the most that memory may say. Throws UsageError saying what is wrong with one.
  void enqueue(int rank, cuda::StreamHandle stream, const RowsOfCall& rows,
               std::span<const CallTensor> tensors);
  // The two halves of it: what may be refused, and what is enqueued, by a caller that is beside
  // captures: new addresses allocate, and graphs are made.
  std::vector<cuda::CallPlace> places_of(int rank, const RowsOfCall& rows,
                                         std::span<const CallTensor> tensors);
  void enqueue_at(int rank, cuda::StreamHandle stream, const RowsOfCall& rows,
                  cuda::CallPlaces places);
  // Bytes of tensors that were copied, since other ranks reach the plan's own in their place.
  uint64_t copied_bytes() const;
  const cuda::Stream& stream(int rank) const { return *of(rank).main; }

  // A captured graph must hold a multiple of this many runs, and a multiple of it must lie between
  // its capture and each launch: 1, or more where copy engines or collectives write buffers that
  // alternate between instances.
  int runs_per_graph() const { return ranks_.front().streams->runs_per_graph(); }

  // Enqueues a pause of a rank's own stream, for tests.
  void delay(int rank, uint64_t duration_ns) const;

  // Collective. Waits for all runs of this process's ranks. Throws RunFault naming the wait that
  // did not end, or the rank that did not come; the runner can then be used again, if it has met
  // all ranks. Else they call finish() again, which returns once they have met. Graphs that hold
  // collectives of NCCL which were given up count as ranks that have not come, until they end.
  void finish();
  bool has_met() const { return has_met_; }
  // Throws UsageError where a stream that finish() would wait for is being captured, which nobody
  // can wait for.
  void require_no_capture() const;
  bool is_captured() const { return captured_rank().has_value(); }
  // Whether a graph of the caller's may hold a run of this process's ranks.
  bool was_captured() const;
  // What went wrong so far, as far as a wait of this process's ranks has seen it; empty: nothing.
  // Asks nobody, and where nothing went wrong no GPU.
  std::string problem() const;
  bool is_told() const;

  // Ids of all runs that have ended that were no expert's and not -1, of all tokens: every rank
  // that has partitions counts the same. Of look-ups indices that were no row of their table and
  // not -1, in tables of this process's ranks.
  uint64_t bad_ids() const;

  // By local rank: what its kernels marked in the last run, where they make marks; after finish().
  std::vector<std::vector<KernelMarks>> marks() const;

 private:
  struct Rank {
    std::unique_ptr<cuda::Stream> main;
    std::unique_ptr<RankStreams> streams;
    cuda::StreamHandle used = nullptr;  // by the last run since finish(), else `main`
    uint64_t given = 0;                 // grows of every run's places of shared results
    KnownCalls known;
  };
  const Rank& of(int rank) const {
    return ranks_[static_cast<size_t>(rank - fabric_.first_rank())];
  }
  Rank& of(int rank) { return ranks_[static_cast<size_t>(rank - fabric_.first_rank())]; }
  int last_rank() const { return fabric_.first_rank() + fabric_.num_local(); }

  PlanRunner(const Plan& plan, fabric::Fabric& fabric, std::unique_ptr<KernelStore> own_kernels,
             KernelStore* kernels, const RunnerOptions& options);
  static uint64_t next_id();
  std::optional<int> captured_rank() const;  // the stream of whose last run is
  void make_collectives();
  void make_ranks();
  void drop_ranks();
  void add_rank(int rank, const std::vector<bool>& first_algorithms);
  void connect_nccl();
  bool idle(const Rank& rank) const;
  bool aborted() const;
  bool streams_wait() const;  // for counters that have not come
  RunWatch::Seen look(const std::vector<bool>& ended) const;
  std::vector<RankStand> stands(const std::vector<bool>& ended) const;
  void wait_for_runs(RunEnd& end);
  void note_stuck_streams();
  void release();
  std::vector<RunEnd> meet(const RunEnd& mine, bool has_failed);
  std::vector<StuckWait> of_all_processes(const std::vector<StuckWait>& mine);
  std::vector<StuckWait> own_let_go() const;
  std::optional<RunFault> own_problem(const RunEnd& mine) const;
  RunFault problem_of(const fabric::RunOutcome& outcome, const std::vector<RunEnd>& ends,
                      const std::string& collectives);
  bool restart();

  const uint64_t id_ = next_id();
  std::shared_ptr<const cuda::TileSums> sums_;  // of the plan
  fabric::Fabric& fabric_;
  const Plan& plan_;
  std::unique_ptr<KernelStore> own_kernels_;
  KernelStore& kernels_;
  RunnerOptions options_;
  std::deque<CallGraphRoom> own_call_graphs_;  // by local rank
  std::string why_not_in_memory_;  // where no rows in memory are served, though the host's are
  std::vector<cuda::RankProgram> programs_;  // by rank
  cuda::SignalLayout signals_;
  const cuda::CopiedNotifies copied_notifies_;
  PlanMemory memory_;
  const WorkspaceUse workspace_use_;
  std::optional<StandsForFences> stands_for_fences_;
  std::optional<CallTensors> calls_;  // where calls name tensors
  fabric::RunState state_;
  std::unique_ptr<LowLatencyLane> low_latency_;  // where the plan wants it
  std::vector<Rank> ranks_;                      // of this process
  std::vector<NotProposed> not_proposed_;
  std::vector<StuckWait> stuck_;           // streams that were released
  fabric::Communicators* nccl_ = nullptr;  // where the plan has collectives of NCCL
  int nccl_generation_ = 0;
  uint64_t finishes_ = 0;
  bool has_met_ = true;
};

}  // namespace stretto::runtime
