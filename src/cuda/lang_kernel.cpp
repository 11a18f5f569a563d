#include "cuda/lang_kernel.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {

std::string lang_source(const LangKernelName& name, int max_threads) {
  return fmt::format(R"(#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/{}"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__({}, 1)
stretto_lang(const __grid_constant__ LaunchParameters<{}> parameters) {{
  wait_for_stream();
  GpuBlock block(parameters.world);
  {}(block, parameters.args);
}}
)",
                     name.header, max_threads, name.args, name.kernel);
}

void LangKernel::refuse(int blocks) const {
  throw UsageError(
      fmt::format("{} blocks may not all run at once: a rank that shares its GPU has {} SMs, so at "
                  "most as many",
                  blocks, most_blocks_));
}

}  // namespace stretto::cuda
