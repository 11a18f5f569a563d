// Real runs as timelines: what the tasks of kernels marked (stretto/device/marks.h) as spans of the
// plan's instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"
#include "stretto/timeline.h"

namespace stretto::runtime {

// Of one kernel of one rank.
struct KernelMarks {
  std::vector<uint32_t> lanes;                   // of the plan, by block
  std::vector<std::vector<uint32_t>> positions;  // by block and task: the instruction in the lane
  std::vector<uint64_t> words;                   // as cuda::MarkWords::read() gives them
};

// Lanes without kernels (copy engines, NCCL) have no spans. A rank's times count from the begin of
// its first block. Where a task's notifies are made while the next task is at work they have no
// span.
Timeline measured_timeline(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank);

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
