// The small kernels that streams run between others (stretto/device/stream_sync.h) and the mover's.
#pragma once

#include <algorithm>
#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "stretto/device/mover.h"
#include "stretto/device/partition_kernel.h"
#include "stretto/device/pass.h"
#include "stretto/device/stream_sync.h"

namespace stretto::cuda {

// `norms`: of tables in which tasks norm or map. `routes`: of those with routed rows.
std::string mover_source(bool norms = false, bool routes = false);
// Of passes; `routes`: with sums of routed rows.
std::string pass_source(bool routes = false);
// Of partitions, by clusters.
std::string partition_source();
std::string sync_source();

class SyncKernels {
 public:
  // For the current GPU, which must be `device`.
  SyncKernels(const Device& device, const Compiler& compiler);

  // `beside_gemm`: such a kernel may hold all SMs meanwhile, and leaves each registers for one
  // warp. `overlap` as for Kernel::launch().
  void await(const Stream& stream, const device::StreamWaitParams& params, bool beside_gemm,
             bool overlap = false) const {
    const int most = beside_gemm ? 1 : 32;
    const int warps = std::clamp(static_cast<int>(params.num_waits + 31) / 32, 1, most);
    await_.launch(stream, 1, warps * 32, 1, &params, overlap);
  }
  void notify(const Stream& stream, const device::StreamNotifyParams& params,
              bool overlap = false) const {
    notify_.launch(stream, 1, 32, 1, &params, overlap);
  }
  void advance(const Stream& stream, const device::AdvanceParams& params) const {
    const uint32_t most = std::max(params.num_relative, params.num_copied);
    const int warps = std::clamp(static_cast<int>(most + 31) / 32, 1, 32);
    advance_.launch(stream, 1, warps * 32, 1, &params);
  }
  void check_set(const Stream& stream, const device::CheckSetParams& params) const {
    check_set_.launch(stream, 1, 1, 1, &params);
  }
  void delay(const Stream& stream, uint64_t duration_ns) const {
    delay_.launch(stream, 1, 1, 1, &duration_ns);
  }

 private:
  std::string cubin_;
  Kernel await_, notify_, advance_, check_set_, delay_;
};

}  // namespace stretto::cuda
