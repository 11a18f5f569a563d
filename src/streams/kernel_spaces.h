// What kernels of a rank's runs signal with, each with its own number and its own words in which it
// counts runs; and where in the plan each of them stands, for waits that it gives up.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/signal_layout.h"
#include "streams/run_counts.h"
#include "streams/stuck_wait.h"
#include "stretto/device/signal.h"

namespace stretto::runtime {

class KernelSpaces {
 public:
  // `space` is the rank's. All must outlive the spaces.
  KernelSpaces(const Plan& plan, int rank, const cuda::SignalLayout& signals,
               const device::SignalSpace& space)
      : plan_(plan), rank_(rank), signals_(signals), space_(space) {}

  // The space of one more kernel, of so many blocks.
  device::SignalSpace add(KernelPlace place, int blocks = 1);
  // A word that a stream counts in, where no kernel does.
  cuda::DevicePtr add_count() { return reinterpret_cast<cuda::DevicePtr>(counts_.add(1)); }
  bool empty() const { return counts_.empty(); }

  // After counters were set to 0: the next run is the first.
  void restart() { counts_.restart(); }
  // By block of every kernel: the runs that it has begun.
  std::vector<uint64_t> runs_begun() const { return counts_.read(); }
  // The wait that a kernel gave up.
  StuckWait locate(const device::WaitError& error) const;

 private:
  const Plan& plan_;
  int rank_;
  const cuda::SignalLayout& signals_;
  device::SignalSpace space_;
  std::vector<KernelPlace> places_;  // by SignalSpace::kernel
  RunCounts counts_;
};

}  // namespace stretto::runtime
