// Symmetric memory for kernels of the device language on real GPUs, and what went wrong in a run as
// an error that a person can act on.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/host_words.h"
#include "stretto/device/lang/gpu_block.h"

namespace stretto::fabric {

// The symmetric memory of all ranks and what a launch needs to know about it.
class LangGroup {
 public:
  // Collective. `heap_bytes` are for allocations, each a multiple of 256. Grids whose blocks wait
  // for others have at most `max_blocks`; larger ones are refused at their launch. Throws
  // UsageError when the heap is too small, or there are more ranks than the language serves.
  LangGroup(Fabric& fabric, size_t heap_bytes, int max_blocks = 256,
            uint64_t timeout_ns = 2'000'000'000);
  // What such a group takes of every GPU.
  static size_t bytes_of(size_t heap_bytes, int max_blocks, int ranks);

  // Collective. `num_bytes` at the same offset of every rank's heap, all words `fill`. Throws
  // UsageError when the heap has no room.
  size_t allocate(const std::string& name, size_t num_bytes, uint32_t fill);
  template <class T>
  T* at(int rank, size_t offset) const {
    return reinterpret_cast<T*>(heap_.local(rank) + offset);
  }
  // Collective, while no kernel uses it.
  void refill(size_t offset);  // with what it was filled with at first
  void release_all();          // everything that was allocated

  // For launches of `rank`, a rank of this process.
  const device::GpuWorld& world(int rank) const {
    return worlds_[static_cast<size_t>(rank - fabric_.first_rank())];
  }
  // Collective, after a run: throws SystemError when something went wrong, naming rank, block, the
  // awaited word and whose it is; the group can then be used again, with its allocations refilled.
  void check();
  // While kernels run, by themselves: whether a wait has failed, on whatever rank; and what went
  // wrong on this process's ranks so far.
  bool is_aborted() const;
  bool is_told() const { return told_.any(); }  // as RunState::is_told()
  std::string own_problem() const;
  // The same as check(), and returns what went wrong; empty when nothing did.
  std::string take_problem();

 private:
  struct Piece {
    std::string name;
    size_t offset;
    size_t num_bytes;
    uint32_t fill;
  };
  std::string describe(int rank, const device::ExpiredWait& what) const;
  void fill(const Piece& piece);
  void clear_local(int index);  // of the local ranks: what kernels keep beside their arguments

  Fabric& fabric_;
  Region heap_;
  std::vector<cuda::DeviceMemory> local_;
  cuda::HostWords told_;  // by local rank
  std::vector<device::GpuWorld> worlds_;
  std::vector<Piece> pieces_;
  size_t used_ = 0;
  size_t first_ = 0;  // of the user's pieces
};

}  // namespace stretto::fabric
