// Kernels of the device language on the GPUs of this process: a symmetric heap, launches, and what
// went wrong as an error that a person can act on.
#pragma once

#include <string>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/plan_runner.h"
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
                "stretto_lang", shared_bytes) {}

  template <class Args>
  void launch(const Stream& stream, int blocks, int threads, const device::GpuWorld& world,
              const Args& args) const {
    const device::LaunchParameters<Args> parameters{world, args};
    kernel_.launch(stream, blocks, threads, 1, &parameters);
  }
  const Kernel& kernel() const { return kernel_; }

 private:
  Kernel kernel_;
};

// The symmetric memory of all ranks and what a launch needs to know about it.
class LangGroup {
 public:
  // Blocks of a grid are at most `max_blocks`. Throws UsageError when the heap is too small.
  LangGroup(const PeerGroup& group, size_t heap_bytes, int max_blocks = 256,
            uint64_t timeout_ns = 2'000'000'000);

  int ranks() const { return group_.ranks(); }
  // `num_bytes` at the same offset of every rank's heap, all words `fill`. Throws UsageError when
  // the heap has no room.
  size_t allocate(const std::string& name, size_t num_bytes, uint32_t fill);
  template <class T>
  T* at(int rank, size_t offset) const {
    return reinterpret_cast<T*>(heaps_[static_cast<size_t>(rank)].address() + offset);
  }
  void refill(size_t offset);  // with what it was filled with at first
  void release_all();          // everything that was allocated

  const device::GpuWorld& world(int rank) const { return worlds_[static_cast<size_t>(rank)]; }
  // After a run: throws SystemError when something went wrong, naming rank, block, the awaited word
  // and whose it is; the group can then be used again, with its allocations refilled.
  void check();

 private:
  struct Piece {
    std::string name;
    size_t offset;
    size_t num_bytes;
    uint32_t fill;
  };
  std::string describe(int rank, const device::ExpiredWait& what) const;
  void fill(const Piece& piece);

  const PeerGroup& group_;
  std::vector<DeviceMemory> heaps_, local_;
  std::vector<device::GpuWorld> worlds_;
  std::vector<Piece> pieces_;
  size_t used_ = 0, first_ = 0;
};

}  // namespace stretto::cuda
