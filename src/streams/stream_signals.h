// What the streams of a rank's runs wait for and notify between kernels: by the driver's own waits,
// by kernels of a warp, and by copies of words behind data; and what a run adds up at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/sync_kernels.h"
#include "launch/rank_program.h"
#include "launch/signal_layout.h"
#include "streams/kernel_spaces.h"
#include "streams/stuck_wait.h"
#include "tables/copied_notifies.h"
#include "tables/transfers.h"

namespace stretto::runtime {

class StreamSignals {
 public:
  // All must outlive this.
  struct Setup {
    const Plan& plan;
    int rank = 0;
    const cuda::SignalLayout& signals;
    const cuda::CopiedNotifies& copied_notifies;
    const device::uint64* own_counters;
    std::vector<cuda::DevicePtr> counters;  // by rank, as this rank sees them
    const cuda::SyncKernels& sync;
    KernelSpaces& spaces;
    int sets = 1;
  };
  explicit StreamSignals(Setup setup) : setup_(std::move(setup)) {}

  // Waits, or notifies, that follow one another in a stream: the numbers of what makes them,
  // counted from 0, up to num_acts().
  void add_waits(std::span<const cuda::Step> steps);
  void add_notifies(std::span<const cuda::Step> steps);
  uint32_t num_acts() const { return static_cast<uint32_t>(acts_.size()); }
  bool is_kernel(uint32_t act) const;
  // Once all are added. Runs begin after restart() only.
  void take_memory();
  // What a run has at its end: counters that start over, words that copies send next. `counts`: a
  // kernel that counts the run, though it may have nothing else to do.
  void add_end_of_run(bool counts);
  bool has_end_of_run() const { return advance_.has_value(); }
  // Whether counters that copies write lie elsewhere from one run to the next.
  bool alternates() const;

  // `beside_gemm` and `overlap` as for SyncKernels::await().
  void enqueue(uint32_t act, const cuda::Stream& stream, int set, bool beside_gemm,
               bool overlap) const;
  void end_run(const cuda::Stream& main) const {
    if (advance_) setup_.sync.advance(main, *advance_);
  }
  // After counters were set to 0: the next run is the first.
  void restart();

  bool has_stream_waits() const { return !value_waits_.empty(); }
  // Waits of streams whose counters have not come, the first of each lane.
  std::vector<StuckWait> stuck() const;
  // Waits of streams by kernels that stood still when a deadline passed, since the last restart().
  std::vector<StuckWait> let_go() const;
  // Lets every wait of a stream pass, until counters are reset.
  void release() const;

 private:
  struct Act {
    enum class Kind : uint8_t { value_wait, wait, notify, copied_notify } kind;
    uint32_t index;  // in the list of its kind
  };
  struct ValueWait {
    cuda::Step step;
    cuda::DevicePtr counter;
    int64_t threshold;
  };
  // Copies of words make these notifies.
  struct CopiedRange {
    size_t first, count;                                      // of copied_
    std::vector<std::vector<cuda::Transfer>> transfers = {};  // by set
  };
  cuda::DevicePtr counter(const Instr& wait) const;

  Setup setup_;
  std::vector<Act> acts_;
  std::vector<ValueWait> value_waits_;
  std::vector<device::StreamWaitParams> waits_;
  std::vector<std::vector<cuda::Step>> waits_of_;  // by kernel of waits_
  cuda::DeviceMemory let_go_;                      // of all of them
  std::vector<device::StreamNotifyParams> notifies_;
  std::vector<cuda::CopiedNotify> copied_;
  std::vector<CopiedRange> copied_ranges_;
  cuda::DeviceMemory words_;  // of copied_
  std::vector<cuda::DeviceMemory> entries_;
  std::optional<device::AdvanceParams> advance_;
};

}  // namespace stretto::runtime
