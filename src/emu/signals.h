// The counters of all ranks, and the lanes that wait for them.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto::emu {

class Signals {
 public:
  // Throws UsageError when the notifies of one counter add up to more than runs * 2^62 could hold.
  Signals(const Plan& plan, int runs);
  static double bytes_needed(const Plan& plan);

  // The counter that a wait or notify in `run` means: signal of `rank`.
  size_t counter(const SignalRef& signal, int rank, int run) const;
  // What `counter` has before run `run` when every earlier run has completed.
  int64_t base(const SignalRef& signal, int rank, int run) const;
  int64_t value(size_t counter) const { return values_[counter]; }

  // Appends to `woken` the lanes whose threshold has been reached.
  void add(size_t counter, int64_t amount, std::vector<uint32_t>& woken);
  void block(uint32_t lane, size_t counter, int64_t threshold);

 private:
  size_t slot(const SignalRef& signal, int rank) const;

  struct Waiter {
    int64_t threshold = 0;
    uint32_t next = 0;  // lane + 1, or 0
  };
  const Plan& plan_;
  std::vector<size_t> first_;  // by array: its first slot within a rank
  size_t slots_per_rank_ = 0;  // of one copy
  size_t max_copies_ = 1;
  std::vector<int64_t> totals_;    // by slot: notifies of one run
  std::vector<int64_t> values_;    // by slot * max_copies_ + copy
  std::vector<uint32_t> waiting_;  // by counter: lane + 1 at the head of its list, or 0
  std::vector<Waiter> waiters_;    // by lane
};

}  // namespace stretto::emu
