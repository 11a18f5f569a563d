// Kernels of the device language, compiled and launched by name.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "lang/lang_arguments.h"
#include "stretto/device/lang/gpu_block.h"

namespace stretto::cuda {

// Which kernel template to launch, as C++ text.
struct LangKernelName {
  std::string header;         // "kernels/all_reduce.h" of stretto/device/lang
  std::string kernel;         // "all_reduce_one_shot<Bf16x8, GpuBlock>"
  std::string args;           // "AllReduceArgs<GpuBlock>"
  std::string text = {};      // what the header would say, where there is none
  bool waits_itself = false;  // for what its stream did before (call.h); others begin behind that
};

// The translation unit of a kernel, for at most `max_threads` threads a block.
std::string lang_source(const LangKernelName& name, int max_threads);

// What a grid must fit into.
struct GridLimits {
  int max_blocks;       // what the group has memory for (GpuWorld)
  int resident_blocks;  // that the rank's GPU, or its share, holds at once
  bool shares_gpu;
  int free_sms = 0;  // of the GPU, which no block may stand on
};

// Throws UsageError: blocks are not whole warps or too large.
void check_block(int threads, int max_threads);
// And for kernels whose blocks wait for others: there are more blocks than the group has memory
// for, or than run at once.
void check_waiting_grid(int blocks, int threads, const GridLimits& limits);

// One kernel on the current GPU.
class LangKernel {
 public:
  LangKernel(const Device& device, const Compiler& compiler, const LangKernelName& name,
             int max_threads, int shared_bytes = 0)
      : kernel_(compiler.compile(lang_source(name, max_threads), device.arch()).cubin,
                "stretto_lang", shared_bytes),
        max_threads_(max_threads),
        num_sms_(device.num_sms()),
        shares_gpu_(device.ranks() > 1),
        free_sms_(device.free_sms()),
        overlap_(device.can_overlap()) {}

  // Grids and arguments of the project's kernels are checked first: UsageError says what is wrong.
  template <class Args>
  void launch(const Stream& stream, int blocks, int threads, const device::GpuWorld& world,
              const Args& args) const {
    const LangCall call{world.num_ranks, blocks, {world.heaps[world.rank], world.heap_bytes}};
    if constexpr (requires { check_arguments(args, call); }) check_arguments(args, call);
    check_block(threads, max_threads_);
    if constexpr (kBlocksWait<Args>) {
      check_waiting_grid(blocks, threads,
                         {world.max_blocks, resident_blocks(threads), shares_gpu_, free_sms_});
    }
    const device::LaunchParameters<Args> parameters{world, args};
    kernel_.launch(stream, blocks, threads, 1, &parameters, overlap_);
  }
  // LaunchParameters of arguments that only the caller knows, of a kernel whose blocks wait. It may
  // start while the kernel before it ends, if the GPU can do so and it `starts_early`.
  void launch_parameters(const Stream& stream, int blocks, int threads, int max_blocks,
                         const void* parameters, bool starts_early = true) const {
    check_block(threads, max_threads_);
    check_waiting_grid(blocks, threads,
                       {max_blocks, resident_blocks(threads), shares_gpu_, free_sms_});
    kernel_.launch(stream, blocks, threads, 1, parameters, overlap_ && starts_early);
  }
  const Kernel& kernel() const { return kernel_; }

 private:
  // Asked of the driver once for blocks of so many warps.
  int resident_blocks(int threads) const;

  Kernel kernel_;
  int max_threads_, num_sms_;
  bool shares_gpu_;
  int free_sms_;
  bool overlap_;
  mutable std::array<std::atomic<int>, 33> resident_{};  // by warps of a block; 0: not asked yet
};

}  // namespace stretto::cuda
