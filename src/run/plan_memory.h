// The memory of a plan's buffers on the ranks of this process, and where they lie.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "launch/buffer_places.h"
#include "launch/tile_sums.h"

namespace stretto::runtime {

// Memory of the caller's in place of buffers, by name: one address for each rank of this process,
// or a region, where other ranks reach it.
struct Bindings {
  std::map<std::string, std::vector<cuda::DevicePtr>, std::less<>> own;
  std::map<std::string, const fabric::Region*, std::less<>> symmetric;
};

class PlanMemory {
 public:
  // Collective. Buffers that other ranks reach are symmetric and cannot be bound; those of `sums`
  // that stay in registers have no bytes. Throws UsageError for bindings that do not fit,
  // SystemError when memory runs out.
  PlanMemory(const Plan& plan, const cuda::TileSums& sums, fabric::Fabric& fabric,
             const Bindings& bindings);
  ~PlanMemory();
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // As `viewer`, a rank of this process, sees all ranks. A buffer that only its own rank uses has
  // no place on the others.
  const cuda::BufferPlaces& places(int viewer) const {
    return places_[static_cast<size_t>(viewer - fabric_.first_rank())];
  }
  size_t num_bytes(uint16_t buffer) const { return bytes_[buffer]; }
  // Every byte of every buffer of a rank of this process to 0xff: not a number in every type. Those
  // of the caller's are left alone. The rank's GPU is current.
  void poison(int rank, const cuda::Stream& stream) const;

 private:
  void find_shared();
  void bind_regions(const Bindings& bindings);
  void place_shared();
  void place_local(const Bindings& bindings);

  const Plan& plan_;
  fabric::Fabric& fabric_;
  std::vector<size_t> bytes_;                           // of one instance, by buffer
  std::vector<bool> shared_;                            // by buffer: other ranks reach it
  std::vector<bool> bound_;                             // by buffer
  fabric::Region region_;                               // all shared buffers
  std::vector<std::vector<cuda::DeviceMemory>> local_;  // by local rank
  std::vector<cuda::BufferPlaces> places_;              // by local rank
};

}  // namespace stretto::runtime
