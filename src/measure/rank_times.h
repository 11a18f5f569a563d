// Where the time of a real run went, rank by rank.
#pragma once

#include <vector>

#include "streams/marked_tasks.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// Where one rank's time went, us: a table's row. Times of tasks are medians over lanes.
struct RankTimes {
  int rank = 0;
  double first_tile_us = 0;    // until the first tile that awaited others is multiplied
  double multiplying_us = 0;   // a compute lane's tiles
  double waiting_us = 0;       // a compute lane's waits
  double most_waiting_us = 0;  // of any
  double first_copied_us = 0;  // a comm lane's first copy has arrived
  double first_told_us = 0;    // its notifies are made
  double last_told_us = 0;     // those of its last copy
  double notify_us = 0;        // from a task's end until its notifies are made
  double end_us = 0;           // the last mark
};
std::vector<RankTimes> times_by_rank(const Plan& plan,
                                     const std::vector<std::vector<KernelMarks>>& by_rank);

}  // namespace stretto::runtime
