// The streams of one rank, ready to enqueue runs of a plan: kernels with their tables in GPU
// memory, transfers, collectives, waits and notifies.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicators.h"
#include "gpu/gemm_kernel.h"
#include "gpu/sync_kernels.h"
#include "launch/rank_program.h"
#include "launch/signal_layout.h"
#include "run/call_graphs.h"
#include "run/call_memory.h"
#include "run/call_tensors.h"
#include "run/copy_rows.h"
#include "run/expert_launches.h"
#include "run/kernel_store.h"
#include "run/library_launches.h"
#include "run/low_latency_lane.h"
#include "run/marked_tasks.h"
#include "run/nccl_lane.h"
#include "run/rows_of_call.h"
#include "run/run_counts.h"
#include "run/stuck_wait.h"
#include "tables/collectives.h"
#include "tables/copied_notifies.h"
#include "tables/mover_table.h"
#include "tables/plan_tables.h"
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

  // One run, behind what `main` already has; what follows on `main` comes after the run. `capture`
  // is the stream's (Stream::capture()); `places` are of the call's tensors, where calls name them.
  void enqueue(cuda::StreamHandle main, const RowsOfCall& rows,
               const std::optional<uint64_t>& capture, cuda::CallPlaces places = {});
  uint64_t copied_bytes() const { return copied_bytes_; }
  // A captured graph must hold a multiple of this many runs.
  int runs_per_graph() const { return alternates_ ? sets_ : 1; }
  // Of all runs that have ended: ids that were no expert's and not -1, of all tokens.
  uint64_t bad_ids() const;
  // After counters were set to 0: the next run is the first.
  void restart();
  // By block of every kernel: the runs that it has begun. Where a run is a library's kernels only,
  // streams write it now and then instead, in the same runs on all ranks.
  std::vector<uint64_t> runs_begun() const { return counts_.read(); }
  // Nothing is written in runs of graphs then, for it would be the same each time.
  // A graph of the caller's may hold a run.
  bool was_captured() const { return is_captured_; }
  bool counts_runs() const { return shown_at_ == 0 || !is_captured_; }
  bool kernels_count() const { return shown_at_ == 0; }
  // All runs have ended: the next one is shown.
  void end_runs() { runs_since_end_ = 0; }

  // Of every kernel, where the setup asks for them; while no run is under way.
  std::vector<KernelMarks> marks() const;

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
  StuckWait locate(const device::WaitError& error) const;
  bool has_stream_waits() const { return !value_waits_.empty(); }
  // Waits of streams whose counters have not come, the first of each lane.
  std::vector<StuckWait> stuck_stream_waits() const;
  // Waits of streams by kernels that stood still when a deadline passed, since the last restart().
  std::vector<StuckWait> let_go_waits() const;
  // Lets every wait of a stream pass, until counters are reset.
  void release_stream_waits() const;

 private:
  enum class StreamOp : uint8_t {
    gemm,
    move,
    wait_value,
    wait,
    notify,
    copy,
    copied_notify,
    collective,
    record,
    await
  };
  struct Op {
    StreamOp kind;
    uint32_t stream;
    uint32_t index;  // in the list of its kind
  };
  struct ValueWait {
    cuda::Step step;
    cuda::DevicePtr counter;
    int64_t threshold;
  };
  // Of few rows, whose kernel sends what it has multiplied to a collective, or stores it.
  struct FewRowsProduct {
    const cuda::FewRowsKernel* kernel = nullptr;
    struct Matrices {
      cuda::FewRowsOperands of;
      cuda::Matrix to;
      bool operator==(const Matrices&) const = default;
    };
    std::vector<Matrices> by_set = {};
    bool are_weights_given = false;         // no kernel of the plan writes them
    std::optional<uint32_t> receiver = {};  // of low_latency_
  };

  struct LowLatencyOp {
    int32_t id;
    std::vector<cuda::LowLatencyCall> by_set;
  };

  // A call while it is enqueued: where its tensors lie, and what kernels read of them.
  struct Call {
    cuda::CallPlaces places;
    cuda::DevicePtr blob = 0;
  };

  void add_kernels();
  // All of a run, behind what the stream has.
  void enqueue_run(const cuda::Stream& main, const RowsOfCall& rows, int set);
  bool takes_graphs() const;
  // Finds the call's tables; what tells it from others.
  CallSlots::Key begin_call(const cuda::Stream& main, bool is_captured);
  // What calls are alike in that differ in addresses.
  CallSlots::Key kind_of_call(const RowsOfCall& rows, int set) const;
  uint64_t copied_in_call() const;
  void copy_tensors(const cuda::Stream& main, bool outputs, const RowsOfCall& rows);
  // One piece of memory that stands for every tensor in what is enqueued before calls.
  cuda::CallPlaces places_before_calls();
  device::GemmParams at_call(device::GemmParams params, size_t kernel) const;
  device::MoverParams at_call(device::MoverParams params, size_t kernel) const;
  cuda::LowLatencyCall call_of(const LowLatencyOp& made, int set, const RowsOfCall& rows) const;
  void add_products();
  void add_few_rows(uint32_t kernel);
  void send_product(const Op& op, const cuda::Stream& stream, int set,
                    const RowsOfCall& rows) const;
  // Of an op that receives: its product is the op before it, and does not read where it writes.
  bool receives_early(const Op& op, int set, const cuda::LowLatencyCall& call) const;
  void require_clusters() const;
  int sms_for_library() const;    // that a product may have, 0: all
  int sms_beside_movers() const;  // the same
  void add_marks(std::vector<uint32_t>& lanes, std::vector<std::vector<uint32_t>>& positions);
  void add_ops();
  void add_waits(uint32_t stream, const std::vector<cuda::Step>& steps);
  void add_notifies(uint32_t stream, const std::vector<cuda::Step>& steps);
  void add_copy(uint32_t stream, const cuda::Step& step);
  void add_collective(uint32_t stream, const cuda::Step& step);
  void add_copied_notifies(uint32_t stream, const std::vector<cuda::CopiedNotify>& notifies);
  void place_copied_notifies();
  void place_let_go_words();
  void clear_let_go_words();
  void add_ends_of_run();
  device::SignalSpace space_of(KernelPlace place, int blocks = 1);
  cuda::DevicePtr counter(const Instr& wait) const;
  int next_set(const std::optional<uint64_t>& capture);
  void show_run(const cuda::Stream& main, bool is_captured);
  void multiply(uint32_t kernel, const cuda::Stream& stream, int set, const RowsOfCall& rows,
                bool starts_early);
  void make_collective(const Op& op, const cuda::Stream& stream, int set,
                       const RowsOfCall& rows) const;
  void issue(const Op& op, const cuda::Stream& stream, int set, const RowsOfCall& rows);
  // Whether a kernel of tiles is none of cuBLAS.
  bool is_kernel_of_ours(uint32_t gemm) const;
  // Whether both it, one of ops_, and the one before it are kernels of ours, which wait for the end
  // of that by themselves; or it begins a run that may begin so.
  bool starts_early(const Op& op) const;
  template <typename Params>
  Params with_rows(const Params& params, const RowsOfCall& rows) const;

  Setup setup_;
  int sets_;
  // Kernels of a run's only stream are started while those before them end: where the rank has the
  // GPU to itself, since two of its kernels may hold blocks at once. So is its first one.
  bool kernels_overlap_ = false, overlaps_ = false;
  bool alternates_ = false;  // copies or collectives lie elsewhere from one run to the next
  uint64_t eager_runs_ = 0, captured_runs_ = 0, capture_ = 0;
  cuda::DevicePtr shown_at_ = 0;  // where streams write what kernels do not count, else 0
  uint64_t shown_runs_ = 0, runs_since_end_ = 0;
  bool is_captured_ = false;  // some run was

  std::vector<std::unique_ptr<cuda::Stream>> streams_;  // the first is empty: the caller's
  std::vector<std::unique_ptr<cuda::Event>> events_, joins_;
  cuda::Event fork_;
  const cuda::Kernel* mover_ = nullptr;
  const cuda::Kernel* pass_ = nullptr;
  const cuda::Kernel* partition_ = nullptr;
  const cuda::SyncKernels& sync_;

  std::vector<Op> ops_;
  std::vector<const cuda::GemmKernel*> gemm_kernels_;
  std::vector<cuda::DeviceGemmTable> gemms_;  // of each of these
  LibraryLaunches library_;  // by number among the kernels that a library multiplies
  std::map<uint32_t, FewRowsProduct> few_rows_;  // by GEMM kernel
  ExpertLaunches experts_;                       // by the same number; of each kernel either
  std::vector<cuda::DeviceMoverTable> moves_;
  std::vector<KernelMarks> marks_;  // without their words, of gemms_ and then moves_
  std::vector<ValueWait> value_waits_;
  std::vector<device::StreamWaitParams> waits_;
  std::vector<std::vector<cuda::Step>> waits_of_;  // by kernel of waits_
  cuda::DeviceMemory let_go_;                      // of all of them
  std::vector<device::StreamNotifyParams> notifies_;
  std::vector<std::vector<std::vector<cuda::Transfer>>> copies_;       // [copy][set]
  std::vector<std::vector<std::vector<cuda::NcclCall>>> collectives_;  // [collective][set]
  std::vector<LowLatencyOp> low_latency_;  // where these make them: then there are no collectives_
  cuda::DeviceMemory bad_ids_;             // one number, where rows choose experts
  Call call_;
  // Where calls name tensors, and a run is more than a launch.
  std::unique_ptr<CallGraphs> call_graphs_;
  std::unique_ptr<CallMemory> call_memory_;  // where tables hang on a call's addresses
  std::optional<CopyRows> copy_rows_;        // where memory may say the rows of a copied result
  std::vector<cuda::CallPlace> before_calls_;
  cuda::DeviceMemory memory_before_calls_;
  uint64_t copied_bytes_ = 0;
  // What copies make of notifies: each op is a range of them, and a list of transfers a set.
  std::vector<cuda::CopiedNotify> copied_;
  std::vector<std::pair<size_t, size_t>> copied_ranges_;
  std::vector<std::vector<std::vector<cuda::Transfer>>> copied_transfers_;  // [op][set]
  cuda::DeviceMemory words_;                                                // of copied_
  std::vector<KernelPlace> places_of_kernels_;  // by SignalSpace::kernel
  RunCounts counts_;
  std::vector<cuda::DeviceMemory> entries_;
  device::CheckSetParams check_set_{};  // where runs alternate
  std::optional<device::AdvanceParams> advance_;
};

}  // namespace stretto::runtime
