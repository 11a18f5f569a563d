// What the tasks of kernels marked (stretto/device/marks.h), lane by lane in microseconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/device/marks.h"

namespace stretto::runtime {

// What one kernel of one rank has noted.
struct KernelMarks {
  std::vector<uint32_t> lanes;                   // of the plan, by block
  std::vector<std::vector<uint32_t>> positions;  // by block and task: the instruction in the lane
  std::vector<uint64_t> words;                   // as cuda::MarkWords::read() gives them
};

// Times count from the begin of the rank's first block; what a task has not passed has none.
struct MarkedTask {
  uint32_t position = 0;
  std::array<std::optional<double>, device::kMarks> at;

  std::optional<double> passed(device::Mark mark) const { return at[static_cast<size_t>(mark)]; }
  // When it was at work last; 0: it has no work.
  double worked_until() const {
    using device::Mark;
    return std::max({passed(Mark::begun).value_or(0), passed(Mark::multiplied).value_or(0),
                     passed(Mark::finished).value_or(0)});
  }
};

// What one kernel did of a lane.
struct MarkedLane {
  uint32_t lane = 0;
  double begin_us = 0;
  std::vector<MarkedTask> tasks;
};

std::vector<MarkedLane> marked_lanes(const std::vector<KernelMarks>& kernels);
double last_mark(const std::vector<MarkedLane>& lanes);

}  // namespace stretto::runtime
