// The collectives of a rank's runs: NCCL makes them, or kernels of the device language.
#pragma once

#include <cstdint>
#include <vector>

#include "calls/rows_of_call.h"
#include "fabric/communicators.h"
#include "launch/buffer_places.h"
#include "launch/call_places.h"
#include "launch/rank_program.h"
#include "streams/low_latency_lane.h"
#include "tables/collectives.h"

namespace stretto::runtime {

class CollectiveLaunches {
 public:
  // `places` as the rank sees them; all must outlive the launches.
  struct Setup {
    const Plan& plan;
    int rank = 0;
    const cuda::BufferPlaces& places;
    int sets = 1;
    // Who makes them, where the plan has any.
    const fabric::Communicators* communicators = nullptr;
    LowLatencyLane* low_latency = nullptr;
  };
  explicit CollectiveLaunches(const Setup& setup) : setup_(setup) {}

  // Collectives are counted from 0.
  void add(const cuda::Step& step);
  // The kernel of the last one makes this partition too.
  void add_route(const cuda::Step& step);
  uint32_t size() const { return static_cast<uint32_t>(all_.size()); }
  // Whether what they move lies elsewhere from one run to the next.
  bool alternates() const;
  bool is_nccls(uint32_t number) const { return !all_[number].nccl.empty(); }
  // Whether a kernel makes it: of no rows nothing is launched.
  bool is_kernel(uint32_t number, int set) const {
    return !is_nccls(number) && all_[number].low_latency[static_cast<size_t>(set)].count != 0;
  }

  // Of a kernel: what it does in a call, and where a product sends it rows (LowLatencyLane).
  cuda::LowLatencyCall call(uint32_t number, int set, const RowsOfCall& rows,
                            cuda::CallPlaces places) const;
  device::RowTargets targets(uint32_t number, int set, const RowsOfCall& rows,
                             cuda::CallPlaces places) const;
  void launch(uint32_t number, const cuda::Stream& stream, const cuda::LowLatencyCall& call,
              bool starts_early) const;
  // Of NCCL's.
  void make(uint32_t number, const cuda::Stream& stream, int set, cuda::CallPlaces places) const;

 private:
  // By set; of NCCL's or of kernels.
  struct Collective {
    int32_t id = 0;
    std::vector<std::vector<cuda::NcclCall>> nccl = {};
    std::vector<cuda::LowLatencyCall> low_latency = {};
  };

  Setup setup_;
  std::vector<Collective> all_;
};

}  // namespace stretto::runtime
