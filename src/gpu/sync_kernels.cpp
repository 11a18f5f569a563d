#include "gpu/sync_kernels.h"

#include <fmt/format.h>

namespace stretto::cuda {

std::string mover_source(bool norms, bool routes) {
  return fmt::format(R"(#include "stretto/device/mover.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kMoverThreads, 1)
stretto_mover(const __grid_constant__ MoverParams params) {{
  run_mover<true{}>(params, blockIdx.x);
}}
)",
                     routes  ? fmt::format(", {}, true", norms)
                     : norms ? ", true"
                             : "");
}

// Two blocks an SM, or one whose threads have more loads on their way.
std::string pass_source(bool routes) {
  return fmt::format(R"(#include "stretto/device/pass.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kPassThreads, {})
stretto_pass(const __grid_constant__ PassParams params) {{
  run_pass<{}>(params);
}}
)",
                     routes ? 1 : device::kPassBlocksOfSm, routes);
}

std::string partition_source() {
  return R"(#include "stretto/device/partition_kernel.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kPartitionThreads, 1)
stretto_partition(const __grid_constant__ PassParams params) {
  run_partitions(params);
}
)";
}

// Few registers, so that they fit beside a GEMM that fills its SMs.
std::string sync_source() {
  return R"(#include "stretto/device/stream_sync.h"
using namespace stretto::device;
extern "C" __global__ void __maxnreg__(32)
stretto_await(const __grid_constant__ StreamWaitParams params) {
  await_in_stream(params);
}
extern "C" __global__ void __maxnreg__(32)
stretto_notify(const __grid_constant__ StreamNotifyParams params) {
  notify_in_stream(params);
}
extern "C" __global__ void __maxnreg__(32)
stretto_advance(const __grid_constant__ AdvanceParams params) {
  advance_run(params);
}
extern "C" __global__ void __maxnreg__(32)
stretto_check_set(const __grid_constant__ CheckSetParams params) {
  check_set(params);
}
extern "C" __global__ void __maxnreg__(32)
stretto_delay(uint64 duration_ns) {
  delay(duration_ns);
}
)";
}

SyncKernels::SyncKernels(const Device& device, const Compiler& compiler)
    : cubin_(compiler.compile(sync_source(), device.arch()).cubin),
      await_(cubin_, "stretto_await", 0),
      notify_(cubin_, "stretto_notify", 0),
      advance_(cubin_, "stretto_advance", 0),
      check_set_(cubin_, "stretto_check_set", 0),
      delay_(cubin_, "stretto_delay", 0) {}

}  // namespace stretto::cuda
