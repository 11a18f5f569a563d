// What a run of kernels needs to signal between ranks and to fail well: counters, the run control
// with its abort word and error record, all in symmetric memory.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/host_words.h"
#include "stretto/device/signal.h"

namespace stretto::fabric {

// A wait that expired; the ranks that passed because of it report nothing.
struct ExpiredWait {
  int rank = 0;
  device::WaitError error{};
};

struct RunOutcome {
  bool aborted = false;
  std::vector<ExpiredWait> expired;  // by rank; empty when the abort came from the host
};

class RunState {
 public:
  // Collective. All counters are 0.
  RunState(Fabric& fabric, uint32_t num_signals, uint64_t timeout_ns, const std::string& name);

  // For kernels of `rank`, a rank of this process; who launches them gives them words for their
  // runs.
  device::SignalSpace space(int rank) const;
  // The rank's RunControl, in its GPU's memory.
  cuda::DevicePtr control(int rank) const { return region_.local(rank); }
  // The first counter of `rank`, as `viewer`, a rank of this process, sees it.
  cuda::DevicePtr counters(int rank, int viewer) const;
  uint64_t timeout_ns() const { return timeout_ns_; }

  // Of every rank's runs, on all processes: waits of kernels pass.
  void abort() const;
  // Whether the runs of this process's ranks were aborted, by whomever.
  bool is_aborted() const;
  // The same as far as waits of this process's ranks have seen it: reads words of the host's,
  // and asks no GPU.
  bool is_told() const { return told_.any(); }
  // Tells all processes, whatever they do, that this rank has come to the end of its runs, for the
  // nth time; and of every rank the last such n.
  void tell_end(int rank, uint64_t n) const;
  std::vector<uint64_t> ends() const;

  // The waits of this process's ranks that have expired so far.
  std::vector<ExpiredWait> own_expired() const;

  // Collective, after this process has waited for its streams: how the runs since the last call
  // ended, the same on every process. Throws SystemError naming a rank that is late or gone.
  RunOutcome collect();
  // Collective, while no rank runs: as after construction. A run that was aborted needs it;
  // the words in which kernels count runs are then set to 0 too.
  void reset();

 private:
  cuda::DevicePtr reach(int rank) const;
  void clear();

  Fabric& fabric_;
  uint32_t num_signals_;
  uint64_t timeout_ns_;
  std::string name_;
  Region region_;
  struct Tables {
    cuda::DeviceMemory counters, controls;
  };
  std::vector<Tables> tables_;  // by local rank
  cuda::HostWords told_;        // the same
};

}  // namespace stretto::fabric
