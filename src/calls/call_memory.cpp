#include "calls/call_memory.h"

#include <algorithm>

#include "gpu/host_copies.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

constexpr size_t kSlotAlignment = 256;
// A plan's slots, as far as they take no more than this; a model's layers each have one.
constexpr size_t kSlabBytes = size_t{2} << 20;
constexpr size_t kFewestSlots = 8, kMostSlots = 128;
// An event for each eighth of a slab: what was not asked for the longest has been marked since.
constexpr size_t kMarksASlab = 8;

}  // namespace

CallMemory::CallMemory(cuda::CallBlob blob)
    : blob_(std::move(blob)),
      slot_bytes_((blob_.num_bytes() + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment),
      slots_a_slab_(
          std::clamp(kSlabBytes / std::max<size_t>(1, slot_bytes_), kFewestSlots, kMostSlots)),
      marks_(slots_a_slab_ / kMarksASlab) {
  add_slab();
}

CallMemory::~CallMemory() {
  for (const Slab& slab : slabs_) driver().host_free(slab.on_host);
}

void CallMemory::add_slab() {
  Slab& slab = slabs_.emplace_back();
  slab.on_gpu = cuda::DeviceMemory(slot_bytes_ * slots_a_slab_);
  void* at = nullptr;
  check(driver().host_alloc(&at, slot_bytes_ * slots_a_slab_, 0), "allocate memory for copies");
  slab.on_host = static_cast<std::byte*>(at);
  for (size_t i = 0; i < slots_a_slab_; ++i) {
    blob_.begin(slab.on_host + i * slot_bytes_);
    copies_.push_back(0);
  }
  slots_.add(slots_a_slab_);
}

cuda::DevicePtr CallMemory::find(const cuda::Stream& stream, const CallSlots::Key& key,
                                 cuda::CallPlaces places, bool is_captured) {
  // A copy that still waits for earlier runs of its stream is waited for by nobody: those may stand
  // in a wait that only finish() ends.
  const auto is_copied = [&](size_t slot) { return marks_.is_made(copies_[slot]); };
  std::optional<CallSlots::Found> found = slots_.find(key, is_captured, is_copied);
  if (!found) {
    add_slab();
    found = slots_.find(key, is_captured);
  }
  const Slab& slab = slabs_[found->slot / slots_a_slab_];
  const size_t at = found->slot % slots_a_slab_ * slot_bytes_;
  const cuda::DevicePtr on_gpu = slab.on_gpu.address() + at;
  if (!found->is_new) return on_gpu;
  try {
    blob_.write(slab.on_host + at, places);
    if (is_captured) {
      cuda::copy_to_gpu(on_gpu, slab.on_host + at, blob_.num_bytes());
    } else {
      check(driver().copy_to_device_async(on_gpu, slab.on_host + at, blob_.num_bytes(),
                                          stream.handle()),
            "copy a call's tables");
      copies_[found->slot] = marks_.note(stream);
    }
  } catch (...) {
    slots_.forget(found->slot);
    throw;
  }
  return on_gpu;
}

}  // namespace stretto::runtime
