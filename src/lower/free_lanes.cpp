#include "lower/free_lanes.h"

namespace stretto {

Pace::Pace(const Segment& op, const Schedule& schedule, const Machine& machine) {
  const double tflops = op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops;
  const double flop = 2.0 * schedule.tile_m * schedule.tile_n * static_cast<double>(op.local_k()) /
                      schedule.split_k;
  if (tflops > 0) {
    const double flop_per_ns = tflops * 1e3 / machine.sms;  // of one SM
    task_ns = static_cast<int64_t>(flop / flop_per_ns + machine.tile_overhead_us * 1e3);
  }
  if (machine.block_hbm_gb_per_s > 0) move_ns_per_byte = 1 / machine.block_hbm_gb_per_s;
}

}  // namespace stretto
