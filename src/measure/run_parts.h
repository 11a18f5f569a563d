// What a real run's time goes to, in a few numbers.
#pragma once

#include <vector>

#include "streams/marked_tasks.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// Microseconds, means over the compute lanes of all ranks; together the run from a rank's first
// block to its last mark.
struct RunParts {
  double waiting_us = 0;      // for other ranks, or lanes
  double multiplying_us = 0;  // tiles; slower than alone where links and movers get in the way
  double adding_us = 0;       // what others sent, or ranges of K
  double ending_us = 0;       // behind a lane's last tile, until the rank's last task has told
  double rest_us = 0;         // first operands, stores between tiles, boundaries

  double total_us() const { return waiting_us + multiplying_us + adding_us + ending_us + rest_us; }
};

// Of the ranks whose kernels marked; all 0 where no compute lane did.
RunParts parts_of_run(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank);

}  // namespace stretto::runtime
