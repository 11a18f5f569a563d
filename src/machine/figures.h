// The figures of a machine file, declared once: field, unit and sane bounds.
#pragma once

#include <string_view>

#include "stretto/machine.h"

namespace stretto {

// X(field, unit, least, most)
#define STRETTO_MACHINE_COUNTS(X) \
  X(sms, "SMs", 1, 4096)          \
  X(nccl_sms, "SMs", 0, 4095)

#define STRETTO_MACHINE_SCALARS(X)               \
  X(gemm_tflops, "TFLOP/s", 1e-3, 1e6)           \
  X(fp32_tflops, "TFLOP/s", 1e-3, 1e6)           \
  X(tile_overhead_us, "us", 0, 1e4)              \
  X(hbm_gb_per_s, "GB/s", 1e-2, 1e6)             \
  X(block_hbm_gb_per_s, "GB/s", 1e-2, 1e6)       \
  X(link_gb_per_s, "GB/s", 1e-2, 1e6)            \
  X(network_gb_per_s, "GB/s", 0, 1e6)            \
  X(network_latency_us, "us", 0, 1e5)            \
  X(copy_engine_all_gb_per_s, "GB/s", 1e-2, 1e6) \
  X(epilogue_push_gb_per_s, "GB/s", 1e-2, 1e6)   \
  X(signal_us, "us", 0, 1e4)                     \
  X(local_signal_us, "us", 0, 1e4)               \
  X(release_us, "us", 0, 1e4)                    \
  X(launch_us, "us", 0, 1e4)                     \
  X(chained_launch_us, "us", 0, 1e4)             \
  X(copy_launch_us, "us", 0, 1e4)                \
  X(nccl_launch_us, "us", 0, 1e4)                \
  X(gemm_slowdown_sm_push, "times", 1, 100)      \
  X(gemm_slowdown_copy_engine, "times", 1, 100)

// Scalars that files came without before: such a file has a Hopper GPU's, as Machine has them.
#define STRETTO_MACHINE_LATER_SCALARS(X) X(l2_mb, "MB", 1e-2, 1e5)

// X(field, unit of x and rate)
#define STRETTO_MACHINE_CURVES(X)         \
  X(push_by_blocks, "blocks, GB/s")       \
  X(push_all_by_blocks, "blocks, GB/s")   \
  X(push_multi_by_blocks, "blocks, GB/s") \
  X(copy_engine_by_bytes, "bytes, GB/s")  \
  X(nccl_by_bytes, "bytes, GB/s")

inline constexpr double kLeastRate = 1e-2, kMostRate = 1e6;  // of a curve's points, GB/s
inline constexpr double kLeastX = 1, kMostX = 1e15;
inline constexpr size_t kMostPoints = 64;
inline constexpr int kMostNodes = 1024, kMostRanksPerNode = 1024;
inline constexpr size_t kMostMachineBytes = size_t{1} << 20;

}  // namespace stretto
