// Kernels of your own in the device language, on GPUs: symmetric memory, compilation when the
// program runs, launches, and errors that name who waited for what.
//
//   Context context(2);
//   SymmetricHeap heap(context, 1 << 20);
//   const size_t inbox = heap.allocate("inbox", 256);
//   const KernelText text{read_kernel("hand_on.h"), "hand_on<GpuBlock>", "HandOnArgs<GpuBlock>"};
//   Kernel kernel(heap, text, 128);
//   ... of every rank:
//   const HandOnArgs<device::GpuBlock> args{heap.at<float>(rank, inbox), ...};
//   kernel.launch(rank, context.stream(rank), 1, 128, args);
//   ... then:
//   heap.finish();
//
// The kernel's file is the one that the emulator runs (fibre/explore.h): it includes headers of
// stretto/device only. docs/device-language.md has the language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "stretto/context.h"
#include "stretto/device/lang/gpu_block.h"

namespace stretto {

class Kernel;

// Memory at the same offset of every rank, which kernels reach by their pointers' `peer` and by put
// and get. Collective over the processes of a job, except where it says otherwise: all make the
// same calls in the same order.
class SymmetricHeap {
 public:
  // Kernels have at most `max_blocks` blocks; their waits end with an error after `timeout_s`. The
  // context must outlive the heap. Throws UsageError, or SystemError when memory runs out.
  SymmetricHeap(Context& context, size_t num_bytes, int max_blocks = 256, double timeout_s = 2);
  ~SymmetricHeap();
  SymmetricHeap(const SymmetricHeap&) = delete;
  SymmetricHeap& operator=(const SymmetricHeap&) = delete;

  // Bytes for one use, 256-byte aligned, every word `fill`; where they begin, on every rank. Errors
  // call them by `name`. Throws UsageError when there is no room.
  size_t allocate(const std::string& name, size_t num_bytes, uint32_t fill = 0);
  // Fills them as at first, while no kernel uses them.
  void refill(size_t offset);
  // Not collective: on `rank`, which is of this process. Valid in kernels only; Context copies.
  template <class T>
  T* at(int rank, size_t offset) const {
    return reinterpret_cast<T*>(address(rank, offset));
  }

  // Waits for all launches. Throws SystemError naming rank, block and what was awaited; allocations
  // are then as at first, and the heap can go on.
  void finish();

 private:
  friend class Kernel;
  GpuAddress address(int rank, size_t offset) const;
  const device::GpuWorld& world(int rank) const;

  struct State;
  std::unique_ptr<State> state_;
};

struct KernelText {
  std::string source;  // C++: the kernel and its arguments, with their includes
  std::string kernel;  // as a call names it: "hand_on<GpuBlock>"
  std::string args;    // the type of its one argument: "HandOnArgs<GpuBlock>"
};

// The text of a file of up to 1 MiB. Throws SystemError when it cannot be read.
std::string read_kernel(const std::string& path);

class Kernel {
 public:
  // Not collective. For blocks of at most `max_threads` threads and so much dynamic shared memory.
  // Throws UsageError with what the compiler says, or where the GPU gives a block less. The heap
  // must outlive the kernel.
  Kernel(SymmetricHeap& heap, const KernelText& text, int max_threads, int shared_bytes = 0);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // One launch, behind what the rank's stream has; the same grid on all ranks. `Args` are copied.
  // Throws UsageError for blocks that cannot all run at once, since they wait for other ranks'. The
  // launches of a rank are ordered with one another, by streams and events, and a stream lives
  // until the next finish().
  template <class Args>
  void launch(int rank, GpuStream stream, int blocks, int threads, const Args& args) const {
    const device::LaunchParameters<Args> parameters{heap_.world(rank), args};
    launch_with(rank, stream, blocks, threads, &parameters);
  }

 private:
  void launch_with(int rank, GpuStream stream, int blocks, int threads,
                   const void* parameters) const;

  SymmetricHeap& heap_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stretto
