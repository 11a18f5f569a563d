#include "lang/lang_kernel.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {

std::string lang_source(const LangKernelName& name, int max_threads) {
  const std::string text = name.header.empty()
                               ? name.text
                               : fmt::format("#include \"stretto/device/lang/{}\"", name.header);
  return fmt::format(R"(#include "stretto/device/lang/gpu_block.h"
{}
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__({}, 1)
stretto_lang(const __grid_constant__ LaunchParameters<{}> parameters) {{
  {}GpuBlock block(parameters.world);
  {}(block, parameters.args);
}}
)",
                     text, max_threads, name.args,
                     name.waits_itself ? "" : "wait_for_stream();\n  ", name.kernel);
}

void check_block(int threads, int max_threads) {
  if (threads >= 32 && threads <= max_threads && threads % 32 == 0) return;
  throw UsageError(fmt::format(
      "{} threads a block: a multiple of 32 is needed, at most the {} that the kernel is compiled "
      "for",
      threads, max_threads));
}

void check_waiting_grid(int blocks, int threads, const GridLimits& limits) {
  if (blocks < 1) throw UsageError(fmt::format("{} blocks: at least one is needed", blocks));
  if (blocks > limits.max_blocks) {
    throw UsageError(
        fmt::format("{} blocks, but their symmetric heap was made for {}: make it with "
                    "max_blocks of {} or launch fewer",
                    blocks, limits.max_blocks, blocks));
  }
  if (blocks > limits.resident_blocks) {
    std::string why = fmt::format("the GPU holds {} of this kernel", limits.resident_blocks);
    if (limits.shares_gpu) {
      why = fmt::format("a rank that shares its GPU has {} SMs, so at most as many",
                        limits.resident_blocks);
    } else if (limits.free_sms > 0) {
      why = fmt::format("with {} SMs left free a rank has {}, so at most as many", limits.free_sms,
                        limits.resident_blocks);
    }
    throw UsageError(
        fmt::format("{} blocks of {} threads wait for each other and cannot all run at once: {}",
                    blocks, threads, why));
  }
}

int LangKernel::resident_blocks(int threads) const {
  // Several blocks of an SM might as well stand on as many, and on those that are left free.
  if (shares_gpu_ || free_sms_ > 0) return num_sms_;
  std::atomic<int>& resident = resident_[static_cast<size_t>(threads / 32)];
  int blocks = resident.load(std::memory_order_relaxed);
  if (blocks == 0) {
    blocks = kernel_.blocks_of_an_sm(threads) * num_sms_;
    resident.store(blocks, std::memory_order_relaxed);
  }
  return blocks;
}

}  // namespace stretto::cuda
