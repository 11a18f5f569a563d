// Signals of a plan in one flat space of every rank's counters: array by array, instance by
// instance.
#pragma once

#include <string>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/device/signal.h"
#include "stretto/plan.h"

namespace stretto::cuda {

class SignalLayout {
 public:
  // With `stream_waits`, counters that steps of a rank's program await start over with each run
  // (stretto/device/stream_sync.h), so that the streams can await them; those with several
  // instances cannot: which one a run uses is known on the GPU only.
  SignalLayout(const Plan& plan, const std::vector<RankProgram>& programs, bool stream_waits);

  uint32_t num_signals() const { return num_signals_; }
  // Flat index of instance 0; the others follow `count` of the array further on.
  uint32_t index_of(const SignalRef& ref) const {
    return first_[ref.array] + static_cast<uint32_t>(ref.index);
  }
  uint64_t per_run(int rank, uint32_t signal) const {
    return per_run_[static_cast<size_t>(rank)][signal];
  }
  // Whether a rank's counter starts over with each run.
  bool is_relative(int rank, uint32_t signal) const {
    return relative_[static_cast<size_t>(rank)][signal];
  }
  // What a wait of a relative counter asks for; may be negative.
  int64_t relative_threshold(int rank, const Instr& wait) const;

  device::WaitEntry wait_entry(const Plan& plan, int rank, const Instr& wait) const;
  device::NotifyEntry notify_entry(const Plan& plan, const Instr& notify) const;

  // "slots.12", from the flat index of any instance.
  std::string name_of(const Plan& plan, uint32_t signal) const;
  SignalRef ref_of(const Plan& plan, uint32_t signal) const;

 private:
  std::vector<uint32_t> first_;  // by array
  uint32_t num_signals_ = 0;
  std::vector<std::vector<uint64_t>> per_run_;  // [rank][flat index of instance 0]: a run's sum
  std::vector<std::vector<bool>> relative_;     // the same
};

// Hosts and GPUs keep a few words for each. Empty: they can.
std::string why_too_many_counters(const Plan& plan);

}  // namespace stretto::cuda
