#include "cuda/shared_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/environment.h"
#include "core/text.h"
#include "cuda/rank_program.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// Left to no rank. Each of the eight clusters of SMs may strand one, where kernels of pairs of
// blocks stand beside kernels of single blocks; four are for the small kernels of streams and for
// the driver's own, which need not find room beside a GEMM.
constexpr int kSpareSms = 12;

// Streams that share a queue wait for each other: what spins at its head would wait for what is
// behind it.
constexpr const char* kQueues = "32";
constexpr size_t kMostStreams = 32;

}  // namespace

int ranks_a_gpu_from(std::string_view text) {
  if (text.empty()) return 1;
  const auto value = int_from(text);
  if (!value || *value < 1 || *value > kMostRanksAGpu) {
    throw UsageError(fmt::format("STRETTO_RANKS_A_GPU={}: a number from 1 to {} is needed",
                                 quote(text), kMostRanksAGpu));
  }
  return static_cast<int>(*value);
}

int ranks_a_gpu() { return ranks_a_gpu_from(environment().ranks_a_gpu); }

void require_own_gpus_for_times() {
  if (const int shared = ranks_a_gpu(); shared > 1) {
    throw UsageError(fmt::format(
        "ranks that share GPUs (STRETTO_RANKS_A_GPU={}) show what a plan computes, not how long it "
        "takes: unset it to measure",
        shared));
  }
}

int sms_a_rank(int num_sms, int ranks) {
  if (ranks <= 1) return num_sms;
  return std::max(1, (num_sms - kSpareSms) / ranks);
}

void prepare_driver_to_share() {
  constexpr int kKeep = 0;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", kQueues, kKeep);
  // A kernel that is loaded at its first launch waits for those that run, which may wait for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", kKeep);
}

std::vector<std::string> why_not_shared(const Plan& plan, const std::vector<RankProgram>& programs,
                                        int ranks_a_gpu) {
  std::vector<std::string> reasons;
  if (ranks_a_gpu <= 1) return reasons;
  if (!plan.low_latency_collectives &&
      std::any_of(plan.lanes.begin(), plan.lanes.end(),
                  [](const Lane& lane) { return lane.kind == LaneKind::nccl; })) {
    reasons.push_back(fmt::format(
        "NCCL serves one rank a GPU, and here {} share one: take a schedule without mover=nccl, or "
        "collectives=low-latency",
        ranks_a_gpu));
  }
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
