// Kernels of the device language, compiled and launched by name.
#pragma once

#include <string>

#include "cuda/compiler.h"
#include "cuda/device.h"
#include "cuda/lang_arguments.h"
#include "stretto/device/lang/gpu_block.h"

namespace stretto::cuda {

// Which kernel template to launch, as C++ text.
struct LangKernelName {
  std::string header;  // "kernels/all_reduce.h" of stretto/device/lang
  std::string kernel;  // "all_reduce_one_shot<Bf16x8, GpuBlock>"
  std::string args;    // "AllReduceArgs<GpuBlock>"
};

// The translation unit of a kernel, for at most `max_threads` threads a block.
std::string lang_source(const LangKernelName& name, int max_threads);

// One kernel on the current GPU.
class LangKernel {
 public:
  LangKernel(const Device& device, const Compiler& compiler, const LangKernelName& name,
             int max_threads, int shared_bytes = 0)
      : kernel_(compiler.compile(lang_source(name, max_threads), device.arch()).cubin,
                "stretto_lang", shared_bytes),
        most_blocks_(device.ranks() > 1 ? device.num_sms() : 0),
        overlap_(device.arch() >= "sm_90" && device.ranks() == 1) {}

  // Arguments of the project's kernels are checked first: UsageError says what is wrong.
  template <class Args>
  void launch(const Stream& stream, int blocks, int threads, const device::GpuWorld& world,
              const Args& args) const {
    if constexpr (requires { check_arguments(args, world.num_ranks, blocks); }) {
      check_arguments(args, world.num_ranks, blocks);
    }
    if (most_blocks_ > 0 && blocks > most_blocks_) refuse(blocks);
    const device::LaunchParameters<Args> parameters{world, args};
    kernel_.launch(stream, blocks, threads, 1, &parameters, overlap_);
  }
  const Kernel& kernel() const { return kernel_; }

 private:
  [[noreturn]] void refuse(int blocks) const;

  Kernel kernel_;
  int most_blocks_;  // where ranks share the GPU, else 0
  bool overlap_;
};

}  // namespace stretto::cuda
