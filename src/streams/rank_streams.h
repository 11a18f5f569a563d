// The streams of one rank, ready to enqueue runs of a plan: kernels with their tables in GPU
// memory, transfers, collectives, waits and notifies.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "calls/call_graphs.h"
#include "calls/call_tensors.h"
#include "calls/rows_of_call.h"
#include "gpu/sync_kernels.h"
#include "launch/rank_program.h"
#include "streams/collective_launches.h"
#include "streams/copied_tensors.h"
#include "streams/expert_launches.h"
#include "streams/few_rows_launches.h"
#include "streams/kernel_spaces.h"
#include "streams/kernel_store.h"
#include "streams/library_launches.h"
#include "streams/stream_signals.h"
#include "streams/table_kernels.h"
#include "tables/copied_notifies.h"
#include "tables/transfers.h"

namespace stretto::runtime {

class RankStreams {
 public:
  // Everything must outlive the streams.
  struct Setup {
    const Plan& plan;
    int rank = 0;
    const cuda::Device& device;
    KernelStore& kernels;
    const cuda::RankProgram& program;
    const cuda::SignalLayout& signals;
    const cuda::CopiedNotifies& copied_notifies;
    device::SignalSpace space;
    std::vector<cuda::DevicePtr> counters;  // by rank, as this rank sees them
    const cuda::BufferPlaces& places;       // as this rank sees them
    // Where the plan has collectives: who makes them.
    const fabric::Communicators* communicators = nullptr;
    LowLatencyLane* low_latency = nullptr;
    bool serves = false;          // runs may have fewer rows
    bool rows_in_memory = false;  // and memory may say how many
    bool marks = false;           // kernels tell when they did what
    // Where a library multiplies: of which of the operator's products its first algorithm takes the
    // place of the plan's (none: of no one), and how many it may propose.
    std::vector<bool> first_algorithms = {};
    int most_proposals = kMostAlgorithms;
    const CallTensors* calls = nullptr;    // where calls name the caller's tensors
    CallGraphRoom* call_graphs = nullptr;  // then
  };
  // The rank's GPU must be current, here and below.
  explicit RankStreams(const Setup& setup);
  RankStreams(const RankStreams&) = delete;
  RankStreams& operator=(const RankStreams&) = delete;

  // One run, behind what `main` already has; what follows on `main` comes after the run. `capture`
  // is the stream's (Stream::capture()); `places` are of the call's tensors, where calls name them.
  void enqueue(cuda::StreamHandle main, const RowsOfCall& rows,
               const std::optional<uint64_t>& capture, cuda::CallPlaces places = {});
  uint64_t copied_bytes() const { return copied_bytes_; }
  // A captured graph must hold a multiple of this many runs.
  int runs_per_graph() const { return alternates_ ? sets_ : 1; }
  // Of all runs that have ended: ids that were no expert's and not -1, of all tokens.
  uint64_t bad_ids() const { return tables_.bad_ids(); }
  // After counters were set to 0: the next run is the first.
  void restart();
  // By block of every kernel: the runs that it has begun. Where a run is a library's kernels only,
  // streams write it now and then instead, in the same runs on all ranks.
  std::vector<uint64_t> runs_begun() const { return spaces_.runs_begun(); }
  // A graph of the caller's may hold a run.
  bool was_captured() const { return is_captured_; }
  // Streams write nothing in runs of graphs, for it would be the same each time.
  bool counts_runs() const { return shown_at_ == 0 || !is_captured_; }
  bool kernels_count() const { return shown_at_ == 0; }
  // All runs have ended: the next one is shown.
  void end_runs() { runs_since_end_ = 0; }

  // Of every kernel, where the setup asks for them; while no run is under way.
  std::vector<KernelMarks> marks() const { return tables_.marks(); }

  // A library's products by themselves, on memory of nobody's where calls name tensors, once with
  // every algorithm that runs may take: at first use it loads its kernels, which a graph's capture
  // would not survive, and which may wait for other kernels.
  void enqueue_products(const cuda::Stream& stream);
  // By product of the operator: the fewest algorithms that a library proposes where the plan asks
  // for another; its first has taken the place of that. kMostAlgorithms: it proposes all that are
  // asked for.
  std::vector<int> num_proposed() const { return library_.num_proposed(); }
  // The collectives of a run by themselves: at first use NCCL connects.
  void enqueue_collectives(const cuda::Stream& stream);
  // Once what the two have enqueued has ended: they need no memory of their own any more.
  void begin_calls();

  // The wait that a kernel gave up.
  StuckWait locate(const device::WaitError& error) const { return spaces_.locate(error); }
  // What streams wait for, and how they get past it.
  const StreamSignals& signals() const { return signals_; }

 private:
  enum class StreamOp : uint8_t { gemm, move, signal, copy, collective, record, await };
  struct Op {
    StreamOp kind;
    uint32_t stream;
    uint32_t index;  // in the program or the list of its kind
  };
  // A call while it is enqueued: where its tensors lie, and what tables have of them.
  struct Call {
    cuda::CallPlaces places;
    cuda::DevicePtr blob = 0;
  };

  void add_ops();
  void add_product(uint32_t kernel);
  void add_copy(uint32_t stream, const cuda::Step& step);
  void add_collective(uint32_t stream, const cuda::Step& step);
  bool do_places_alternate() const;
  int sms_for_library() const;    // that a product may have, 0: all
  int sms_beside_movers() const;  // the same
  bool takes_graphs() const;

  // Finds the call's tables; what tells it from others.
  CallSlots::Key begin_call(const cuda::Stream& main, bool is_captured);
  // What calls are alike in that differ in addresses.
  CallSlots::Key kind_of_call(const RowsOfCall& rows, int set) const;
  // One piece of memory that stands for every tensor in what is enqueued before calls.
  cuda::CallPlaces places_before_calls();
  int next_set(const std::optional<uint64_t>& capture);
  void show_run(const cuda::Stream& main, bool is_captured);

  // All of a run, behind what the stream has.
  void enqueue_run(const cuda::Stream& main, const RowsOfCall& rows, int set);
  void issue(const Op& op, const cuda::Stream& stream, int set, const RowsOfCall& rows);
  void multiply(const Op& op, const cuda::Stream& stream, int set, const RowsOfCall& rows);
  void multiply_few_rows(const Op& op, const cuda::Stream& stream, int set,
                         const RowsOfCall& rows) const;
  void make_collective(const Op& op, const cuda::Stream& stream, int set,
                       const RowsOfCall& rows) const;
  // Whether a kernel of tiles is none of cuBLAS.
  bool is_kernel_of_ours(uint32_t gemm) const;
  // Whether it, one of ops_, is a kernel of ours, which waits for the end of the one before it by
  // itself, and that is one too, or a collective's; or it begins a run that may begin so.
  bool starts_early(const Op& op) const;
  // The op before it in its stream, where that is the one enqueued right before.
  const Op* ahead_of(const Op& op) const;
  bool is_behind_experts(const Op& op) const;  // a kernel of them that launches anything
  // Of an op that receives: its product is the op before it, and does not read where it writes.
  bool receives_early(const Op& op, int set, const cuda::LowLatencyCall& call) const;

  Setup setup_;
  int sets_;
  // Kernels of a run's only stream are started while those before them end, where the device's may
  // (Device::can_overlap). So is its first one.
  bool kernels_overlap_ = false, overlaps_ = false;
  bool alternates_ = false;  // what host or library reads or writes lies elsewhere in the next run
  uint64_t eager_runs_ = 0, captured_runs_ = 0, capture_ = 0;
  cuda::DevicePtr shown_at_ = 0;  // where streams write what kernels do not count, else 0
  uint64_t shown_runs_ = 0, runs_since_end_ = 0;
  bool is_captured_ = false;  // some run was

  std::vector<std::unique_ptr<cuda::Stream>> streams_;  // the first is empty: the caller's
  std::vector<std::unique_ptr<cuda::Event>> events_, joins_;
  cuda::Event fork_;
  std::vector<Op> ops_;

  const cuda::SyncKernels& sync_;
  KernelSpaces spaces_;
  TableKernels tables_;
  StreamSignals signals_;
  LibraryLaunches library_;  // by number among the kernels that a library multiplies
  ExpertLaunches experts_;   // by the same number; of each kernel either
  CollectiveLaunches collectives_;
  FewRowsLaunches few_rows_;                                      // by GEMM kernel
  std::vector<std::vector<std::vector<cuda::Transfer>>> copies_;  // [copy][set]
  device::CheckSetParams check_set_{};                            // where runs alternate

  Call call_;
  std::optional<CopiedTensors> copied_;  // where calls name tensors
  uint64_t copied_bytes_ = 0;
  // Then, where a run is more than a launch.
  std::unique_ptr<CallGraphs> call_graphs_;
  std::vector<cuda::CallPlace> before_calls_;
  cuda::DeviceMemory memory_before_calls_;
};

}  // namespace stretto::runtime
