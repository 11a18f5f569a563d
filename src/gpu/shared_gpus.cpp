#include "gpu/shared_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/environment.h"
#include "core/text.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// Left to no rank. Each of the eight clusters of SMs may strand one, where kernels of pairs of
// blocks stand beside kernels of single blocks; four are for the small kernels of streams and for
// the driver's own, which need not find room beside a GEMM.
constexpr int kSpareSms = 12;

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
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(kSharedQueues).c_str(), kKeep);
  // A kernel that is loaded at its first launch waits for those that run, which may wait for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", kKeep);
}

}  // namespace stretto::cuda
