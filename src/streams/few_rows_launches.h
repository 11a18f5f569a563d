// The products of a rank's runs that are of few rows: their kernel sends what it has multiplied to
// the collective behind it, which only receives, or stores it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "calls/rows_of_call.h"
#include "launch/call_places.h"
#include "launch/library_products.h"
#include "streams/collective_launches.h"
#include "streams/launch_setup.h"

namespace stretto::runtime {

class FewRowsLaunches {
 public:
  FewRowsLaunches(const LaunchSetup& setup, const CollectiveLaunches& collectives)
      : setup_(setup), collectives_(collectives) {}

  // The product of a kernel of the plan's.
  void add(uint32_t kernel, const cuda::Product& product);
  // The kernel sends to a collective, by its number.
  void send(uint32_t kernel, uint32_t receiver) { by_kernel_.at(kernel).receiver = receiver; }
  bool empty() const { return by_kernel_.empty(); }
  // Whether what they read or write lies elsewhere from one run to the next.
  bool alternates() const;

  // `overlap`: the kernel may start before the one ahead of it has ended; `weights_early`: which
  // writes none of the weights that a caller gives, so that these may be read before.
  void launch(uint32_t kernel, const cuda::Stream& stream, int set, const RowsOfCall& rows,
              cuda::CallPlaces places, bool overlap, bool weights_early) const;
  // Which kernel sends to the collective.
  std::optional<uint32_t> sender(uint32_t receiver) const;
  // Whether the kernel reads nothing of where this call of a collective writes.
  bool is_clear_of(uint32_t kernel, int set, const cuda::LowLatencyCall& call,
                   cuda::CallPlaces places) const;

 private:
  struct Matrices {
    cuda::FewRowsOperands of;
    cuda::Matrix to;
    bool operator==(const Matrices&) const = default;
  };
  struct Product {
    const cuda::FewRowsKernel* kernel = nullptr;
    std::vector<Matrices> by_set = {};
    bool are_weights_given = false;  // no kernel of the plan writes them
    std::optional<uint32_t> receiver = {};
  };

  LaunchSetup setup_;
  const CollectiveLaunches& collectives_;
  std::map<uint32_t, Product> by_kernel_;
};

}  // namespace stretto::runtime
