#include "streams/marked_tasks.h"

namespace stretto::runtime {
namespace {

uint64_t first_begin(const std::vector<KernelMarks>& kernels) {
  uint64_t first = UINT64_MAX;
  for (const KernelMarks& kernel : kernels) {
    for (size_t block = 0; block < kernel.lanes.size(); ++block) {
      const uint64_t begin = kernel.words.at(block);
      if (begin != 0) first = std::min(first, begin);
    }
  }
  return first;
}

}  // namespace

std::vector<MarkedLane> marked_lanes(const std::vector<KernelMarks>& kernels) {
  const uint64_t origin = first_begin(kernels);
  const auto time = [&](uint64_t word) -> std::optional<double> {
    // What an earlier run left is no time of this one.
    if (word == 0 || word < origin) return std::nullopt;
    return static_cast<double>(word - origin) / 1000;
  };
  std::vector<MarkedLane> lanes;
  for (const KernelMarks& kernel : kernels) {
    size_t word = kernel.lanes.size();
    for (size_t block = 0; block < kernel.lanes.size(); ++block) {
      MarkedLane& mine = lanes.emplace_back();
      mine.lane = kernel.lanes[block];
      mine.begin_us = time(kernel.words.at(block)).value_or(0);
      for (const uint32_t position : kernel.positions.at(block)) {
        MarkedTask& task = mine.tasks.emplace_back();
        task.position = position;
        for (auto& at : task.at) at = time(kernel.words.at(word++));
      }
    }
  }
  return lanes;
}

double last_mark(const std::vector<MarkedLane>& lanes) {
  double last = 0;
  for (const MarkedLane& lane : lanes) {
    for (const MarkedTask& task : lane.tasks) {
      for (const auto& at : task.at) last = std::max(last, at.value_or(0));
    }
  }
  return last;
}

}  // namespace stretto::runtime
