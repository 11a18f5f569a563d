// A caller's memory that all ranks reach: results that other ranks write are written there by
// them, without a copy.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/fabric.h"

namespace stretto::runtime {

class SharedResults {
 public:
  explicit SharedResults(fabric::Fabric& fabric) : fabric_(fabric) {}

  // Collective. Another piece of every rank's memory, until this ends.
  const fabric::Region& add(size_t num_bytes);

  // The piece that has all these bytes of a rank's, at which offset; nothing where none has.
  struct Place {
    size_t piece = 0;
    uint64_t offset = 0;
  };
  std::optional<Place> find(int rank, cuda::DevicePtr address, uint64_t num_bytes) const;
  // The same bytes of `rank`'s, as `viewer` sees them.
  cuda::DevicePtr address(const Place& place, int rank, int viewer) const {
    return pieces_[place.piece]->address(rank, viewer) + place.offset;
  }

 private:
  fabric::Fabric& fabric_;
  std::vector<std::unique_ptr<fabric::Region>> pieces_;
};

}  // namespace stretto::runtime
