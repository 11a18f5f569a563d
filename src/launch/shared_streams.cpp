#include "launch/shared_streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/shared_gpus.h"
#include "plan/kernel_calls.h"

namespace stretto::cuda {

std::vector<std::string> why_not_shared(const Plan& plan, const std::vector<RankProgram>& programs,
                                        int ranks_a_gpu) {
  std::vector<std::string> reasons;
  if (ranks_a_gpu <= 1) return reasons;
  if (any_by_nccl(plan)) {
    reasons.push_back(fmt::format(
        "NCCL serves one rank a GPU, and here {} share one: take a schedule without mover=nccl, or "
        "collectives=low-latency",
        ranks_a_gpu));
  }
  constexpr size_t kMostStreams = kSharedQueues;
  size_t most = 0;
  const auto each = static_cast<size_t>(ranks_a_gpu);
  for (size_t first = 0; first < programs.size(); first += each) {
    size_t streams = 0;
    for (size_t r = first; r < std::min(programs.size(), first + each); ++r) {
      streams += programs[r].streams.size();
    }
    most = std::max(most, streams);
  }
  if (most > kMostStreams) {
    reasons.push_back(
        fmt::format("{} ranks on a GPU need {} streams, {} run at once: put fewer ranks on a GPU",
                    ranks_a_gpu, most, kMostStreams));
  }
  return reasons;
}

}  // namespace stretto::cuda
