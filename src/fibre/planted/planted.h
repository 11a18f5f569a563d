// Bugs that real systems had, each beside the same kernel without it.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "stretto/device/lang/shmem.h"
#include "stretto/fibre/explore.h"

namespace stretto::fibre {

// How many ranks and threads a kernel is written for, which often says who does what by number; as
// many blocks as its shape has.
struct Fits {
  int least_ranks = 2, most_ranks = std::numeric_limits<int>::max();
  int least_threads = 1, most_threads = std::numeric_limits<int>::max();
};
inline constexpr Fits kPairOnly{.most_ranks = 2};

struct Planted {
  const char* name;
  const char* origin;              // where it was seen
  std::vector<FindingKind> kinds;  // any of them names it
  Shape shape;
  std::function<void(World&, bool bug)> run;
  Fits fits = {};

  // The kernel with its bug or without; it throws UsageError where it does not fit.
  Scenario with(bool bug) const;
};

}  // namespace stretto::fibre
