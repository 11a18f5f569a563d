// The kernels of experts of a rank's runs: whole products of rows that choose their matrices, each
// a launch that deals out its tiles by the counts of a run.
#pragma once

#include <optional>
#include <vector>

#include "gpu/grouped_kernel.h"
#include "gpu/grouped_operands.h"
#include "launch/call_places.h"
#include "launch/expert_products.h"
#include "streams/launch_setup.h"

namespace stretto::runtime {

class ExpertLaunches {
 public:
  explicit ExpertLaunches(const LaunchSetup& setup) : setup_(setup) {}

  // The products of a kernel of the plan's, on so many SMs, 0: all. Which kernel they are is
  // counted from 0. `ahead`: which other one is right ahead of it on its stream, if one is, so that
  // their partitions were made before that one began; it writes no weights either.
  void add(const std::vector<cuda::ExpertProduct>& products, const cuda::GemmNeeds& needs, int sms,
           std::optional<uint32_t> ahead);
  bool is_any() const;
  // Whether kernel `number` has been added and launches anything.
  bool has(uint32_t number) const {
    return number < by_kernel_.size() && !by_kernel_[number].empty();
  }
  // Whether what they read or write lies elsewhere from one run to the next.
  bool alternates() const;
  // Of a run on instance set `set`, before anything of it is enqueued: weights of a gate and of
  // what it gates may lie too far apart (UsageError).
  void prepare(int set, cuda::CallPlaces places);
  // Those of kernel `number`, as they were prepared.
  // `starts_early`: the first launch may start before the kernel ahead of it has ended; `overlap`:
  // so may those behind it.
  void launch(uint32_t number, const cuda::Stream& stream, bool starts_early, bool overlap) const;
  // After a run that was broken off.
  void restart();

 private:
  // What a launch of an instance set has.
  struct OfSet {
    cuda::GroupedOperands operands;  // with stand-ins for a call's tensors
    cuda::GroupedOperands of_run;    // of the last run
    device::GroupedParams params{};  // of that; a launch takes a copy
    bool is_made = false;            // params are
  };
  struct Launch {
    cuda::ExpertProduct product;
    cuda::GemmNeeds needs;
    const cuda::GroupedKernel* kernel = nullptr;
    int blocks = 1;
    std::vector<OfSet> by_set;
    cuda::DeviceMemory tickets, stored;             // words of zeros (GroupedOperands)
    const device::GroupedParams* params = nullptr;  // of the run
  };

  cuda::GroupedOperands operands_of(const cuda::ExpertProduct& product, bool scatters, int set,
                                    cuda::DevicePtr tickets) const;

  // Has the only launch of a kernel await the only one of the kernel ahead tile by tile, where that
  // can be and is worth it.
  void await_tiles(Launch& launch, std::vector<Launch>& ahead) const;

  LaunchSetup setup_;
  std::vector<std::vector<Launch>> by_kernel_;
};

}  // namespace stretto::runtime
