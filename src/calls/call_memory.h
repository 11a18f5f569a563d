// A rank's tables for the calls of a plan, in GPU memory: encoded at the first call with new
// addresses, found again by later ones.
#pragma once

#include <cstdint>
#include <vector>

#include "calls/call_slots.h"
#include "calls/copy_marks.h"
#include "gpu/device.h"
#include "tables/call_blob.h"

namespace stretto::runtime {

class CallMemory {
 public:
  // The rank's GPU is current, here and below.
  explicit CallMemory(cuda::CallBlob blob);
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  const cuda::CallBlob& blob() const { return blob_; }
  // Where the blob with these places lies for what `stream` runs from now on. `key` tells calls
  // apart. Runs are ordered with one another, so what an earlier call had may be written over in
  // the stream's order; what a graph is captured with is there at once, and stays.
  cuda::DevicePtr find(const cuda::Stream& stream, const CallSlots::Key& key,
                       cuda::CallPlaces places, bool is_captured);

 private:
  struct Slab {
    cuda::DeviceMemory on_gpu;
    std::byte* on_host = nullptr;  // as on the GPU, for copies that the host does not wait for
  };
  void add_slab();

  cuda::CallBlob blob_;
  size_t slot_bytes_, slots_a_slab_;
  std::vector<Slab> slabs_;
  std::vector<uint64_t> copies_;  // by slot: the copy from the host that it waits for; 0: none
  CopyMarks<> marks_;
  CallSlots slots_;
};

}  // namespace stretto::runtime
