// Ranks of one process that share a GPU (STRETTO_RANKS_A_GPU), so that plans of many ranks run on
// few GPUs: for what they compute, not for how long they take.
//
// Kernels wait for each other, so those of all ranks must be on the GPU at once: each rank has its
// share of the SMs, a rank's next kernel starts only when the one before it has ended, and every
// stream has a queue of the hardware to itself.
#pragma once

#include <string>
#include <string_view>

namespace stretto::cuda {

inline constexpr int kMostRanksAGpu = 8;
// Queues of the hardware that the ranks of a GPU have together. Streams that share one wait for
// each other: what spins at its head would wait for what is behind it.
inline constexpr int kSharedQueues = 32;

// What the environment asks for, 1 when it is silent. Throws UsageError.
int ranks_a_gpu();
int ranks_a_gpu_from(std::string_view text);

// The SMs that each of so many ranks on a GPU may keep busy.
int sms_a_rank(int num_sms, int ranks);

// For what measures: throws UsageError where the environment has ranks share GPUs.
void require_own_gpus_for_times();

// Before the driver is initialised: what it must know to run ranks beside each other. Variables
// that are set already stay.
void prepare_driver_to_share();

}  // namespace stretto::cuda
