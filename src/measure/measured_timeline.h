// Real runs as timelines: what the tasks of kernels marked as spans of the plan's instructions.
#pragma once

#include <vector>

#include "streams/marked_tasks.h"
#include "stretto/plan.h"
#include "stretto/timeline.h"

namespace stretto::runtime {

// Lanes without kernels (copy engines, NCCL) have no spans. A rank's times count from the begin of
// its first block. Where a task's notifies are made while the next task is at work they have no
// span.
Timeline measured_timeline(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank);

}  // namespace stretto::runtime
